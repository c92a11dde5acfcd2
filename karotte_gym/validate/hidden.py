"""What must be hidden from the student when it begins a step: of root_data, of the grading data, and of the right answers."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from karotte_gym.errors import CallRefused
from karotte_gym.judges.base import Evidence
from karotte_gym.sandbox.contract import Sandbox, Submission
from karotte_gym.validate.bench import Bench
from karotte_gym.validate.needles import Needle, needles_in, needles_of_folder

__all__ = ["MAX_FILE_BYTES", "Hidden"]

MAX_FILE_BYTES = 8 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Hidden:
    """`common` holds root_data and what was drawn; the others have one entry for each step."""

    common: tuple[Needle, ...]
    grading: tuple[tuple[Needle, ...], ...]
    answers: tuple[tuple[Needle, ...], ...]
    handed_in: tuple[bytes, ...]

    @classmethod
    def of(cls, bench: Bench, sandbox: Sandbox | None, drawn: Mapping[str, bytes]) -> Hidden:
        """`sandbox` is a machine in which the student has not begun: what a file holds there is no answer to that file."""
        evidence = bench.reference.evidence
        common = [*needles_of_folder(bench.folder / "root_data"), *_of_data(drawn)]
        return cls(
            tuple(common),
            tuple(tuple(_of_data(each.grading_data)) for each in evidence),
            tuple(tuple(_of_answer(each, sandbox)) for each in evidence),
            tuple(b"\n".join(content for _, content in _contents(each.submission)) for each in evidence),
        )

    def at(self, step: int) -> list[Needle]:
        """At the beginning of that step (from 0): all that is to come, without what was already handed in before it."""
        before = b"\n".join(self.handed_in[:step])
        data = [*self.common, *(needle for each in self.grading[step:] for needle in each)]
        return [
            *(needle for needle in data if needle.text not in before),
            *(needle for each in self.answers[step:] for needle in each),
        ]


def _of_data(grading_data: Mapping[str, bytes]) -> Iterator[Needle]:
    for name, data in grading_data.items():
        yield from needles_in(bytes(data), f"the grading data {name}")


def _of_answer(evidence: Evidence, sandbox: Sandbox | None) -> Iterator[Needle]:
    """Without what lies there from the start: some tasks are to mend a file."""
    for path, content in _contents(evidence.submission):
        before = _before(sandbox, path)
        needles = [needle for needle in needles_in(content, f"the solution's {path}") if needle.text not in before]
        lines = sum(needle.whole > 0 for needle in needles)
        yield from (dataclasses.replace(needle, whole=lines) if needle.whole else needle for needle in needles)


def _contents(submission: Submission) -> Iterator[tuple[str, bytes]]:
    for file in submission.files:
        if not file.is_dir and file.size <= MAX_FILE_BYTES:
            with open(file.data_path, "rb") as stream:
                yield file.path, stream.read()


def _before(sandbox: Sandbox | None, path: str) -> bytes:
    try:
        return b"" if sandbox is None else sandbox.get_file(path, max_bytes=MAX_FILE_BYTES)
    except CallRefused:
        return b""
