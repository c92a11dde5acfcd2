"""Whether ``student_data/`` or ``shared_data/`` give the answer away. Only files are read, nothing starts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from karotte_gym.validate.bench import Bench
from karotte_gym.validate.finding import Finding, fail, not_checked, warn
from karotte_gym.validate.haystack import Disguises, Hit, search
from karotte_gym.validate.needles import needles_of_folder, without_known

__all__ = ["DATA_FOLDERS", "check_secrets_in_data", "said_of"]

DATA_FOLDERS = {"student_data": "/workdir/data", "shared_data": "/workdir/shared"}
NOT_FOR_STUDENTS = ("solution.json", "grade.py", "root_data", "attacks")
CHUNK_BYTES = 64 * 1024 * 1024
OVERLAP_BYTES = 4096  # more than the longest disguise of a needle
MAX_TOTAL_BYTES = 512 * 1024 * 1024
MAX_SHOWN = 5
FIX = "take it out of what the student gets; if it is to be found there, name it in known_to_student of the task"


def check_secrets_in_data(bench: Bench) -> Iterator[Finding]:
    """No string of root_data, and no file that is named like the task's own secrets."""
    yield from _misplaced(bench.folder)
    needles = without_known(needles_of_folder(bench.folder / "root_data"), bench.task_class)
    if not needles:
        yield not_checked("there is no root_data with a string that is long enough to be looked for")
        return
    disguises, budget = Disguises(needles), MAX_TOTAL_BYTES
    for path in _data_files(bench.folder):
        budget -= path.stat().st_size
        if budget < 0:
            yield not_checked(f"{MAX_TOTAL_BYTES // 2**20} MiB of data were searched, {path.name} and what follows were not")
            return
        yield from said_of(list(dict.fromkeys(_search_file(disguises, path, bench.folder))))


def said_of(hits: Sequence[Hit]) -> Iterator[Finding]:
    """A finding for each source and place; a whole file is one finding, however many of its lines were found."""
    said: dict[tuple[str, str, str], list[Hit]] = {}
    for hit in hits:
        said.setdefault((hit.needle.source, hit.place, "whole" if hit.needle.whole else hit.disguise), []).append(hit)
    for (source, place, how), group in said.items():
        if how == "whole":
            yield fail(f"{place} holds {len(group)} of {group[0].needle.whole} strings of {source}", FIX)
        else:
            what = ", ".join(hit.needle.shown for hit in group[:MAX_SHOWN])
            more = f" and {len(group) - MAX_SHOWN} more" if len(group) > MAX_SHOWN else ""
            yield fail(f"{place} holds {what}{more} of {source} as {how}", FIX)


def _misplaced(folder: Path) -> Iterator[Finding]:
    for path in (path for name in DATA_FOLDERS for path in sorted((folder / name).rglob("*"))):
        if path.name in NOT_FOR_STUDENTS:
            fix = f"move it out of {path.relative_to(folder).parts[0]}/, all of which the student gets"
            same = (folder / path.name).is_file() and path.is_file() and path.read_bytes() == (folder / path.name).read_bytes()
            said = fail if same or path.name == "root_data" else warn
            yield said(f"{path.relative_to(folder)} is called like what the student must not have", fix)


def _data_files(folder: Path) -> Iterator[Path]:
    for name in DATA_FOLDERS:
        yield from sorted(path for path in (folder / name).rglob("*") if path.is_file() and "__pycache__" not in path.parts)


def _search_file(disguises: Disguises, path: Path, folder: Path) -> Iterator[Hit]:
    place = str(path.relative_to(folder))
    yield from search(disguises, place.encode(), place)
    with open(path, "rb") as stream:
        tail = b""
        while chunk := stream.read(CHUNK_BYTES):
            yield from search(disguises, tail + chunk, place)
            tail = chunk[-OVERLAP_BYTES:]
