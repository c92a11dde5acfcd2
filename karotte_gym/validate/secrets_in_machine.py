"""Whether the student's machine, as it is when the student begins, gives the answer away.

A second episode of the solution's seed is opened, and everything that the student itself can read there is searched for
the grading data of that episode and for what the solution handed in: hooks, generated data, environments of processes.
The list of what is readable is made as the student; the files of the base image are left out, for no task has been
near them.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator
from typing import Any

from karotte_gym.errors import CallRefused
from karotte_gym.sandbox.contract import Sandbox
from karotte_gym.validate.bench import SEED, Bench, episode_of
from karotte_gym.validate.finding import Finding, not_checked, warn
from karotte_gym.validate.haystack import Disguises, Hit, search
from karotte_gym.validate.needles import Needle, needles_in, needles_of_folder, without_known
from karotte_gym.validate.secrets_in_data import DATA_FOLDERS, said_of

__all__ = ["check_secrets_in_machine"]

MIB = 1024 * 1024
MAX_FILE_BYTES, MAX_TOTAL_BYTES = 8 * MIB, 64 * MIB
LIST_TIMEOUT_S = 120.0
# Walks as the student. Files of the image are on the image's device, what was laid over it is not. Environments and
# command lines of processes are read where the student may read them.
LISTING = r"""
import glob, json, os, stat, sys
whole_image = json.loads(sys.argv[1])
image = os.stat("/usr/bin/env").st_dev
files, left_out, room, processes = [], 0, 300_000, ""
for directory, names, entries in os.walk("/"):
    names[:] = [n for n in names if os.path.join(directory, n) not in ("/proc", "/sys")]
    for name in entries:
        path = os.path.join(directory, name)
        try:
            facts = os.lstat(path)
            mine = stat.S_ISREG(facts.st_mode) and (whole_image or facts.st_dev != image)
            if mine and os.access(path, os.R_OK):
                told = len(json.dumps([path.encode().decode(), facts.st_size])) + 2
                left_out += told > room
                files += [[path, facts.st_size]] if told <= room else []
                room -= told
        except (OSError, UnicodeError):  # gone meanwhile, or a name that is no text and can't be told
            left_out += 1
for path in glob.glob("/proc/[0-9]*/environ") + glob.glob("/proc/[0-9]*/cmdline"):
    try:
        with open(path, "rb") as stream:
            if f"/{os.getpid()}/" not in path:
                processes += stream.read(4096).decode("utf-8", "replace") + "\n"
    except OSError:
        continue
print(json.dumps({"files": files, "left_out": left_out, "processes": processes[:20000]}))
"""


def check_secrets_in_machine(bench: Bench) -> Iterator[Finding]:
    """Nothing of the grading data or of the right answer is readable before the student's first call."""
    with bench.env() as env:
        _, info = env.reset(seed=SEED)
        sandbox = episode_of(env).sandbox
        assert sandbox is not None
        needles = without_known([*_grading_data(bench), *_answer(bench, sandbox)], bench.task_class)
        hits, left_out = _search(bench, sandbox, Disguises(needles), json.dumps(info["tools"]))
    bench.tell("machine searched")
    if not needles:
        yield not_checked("neither the grading data nor the answer has a string that is long enough to be looked for")
    yield from said_of(list(dict.fromkeys(hits)))
    if left_out:
        yield warn(f"{left_out} files were too many or too large to be fetched out of the machine", "look at them yourself")


def _search(bench: Bench, sandbox: Sandbox, disguises: Disguises, schemas: str) -> tuple[list[Hit], int]:
    """What was found, and how many files were not looked at."""
    hits = search(disguises, schemas.encode(), "the descriptions of the tools")
    listing = _listing(sandbox, whole_image=bench.task_class.student_machine().image is not None)
    hits += search(disguises, listing["processes"].encode(), "the environment or command line of a process")
    left_out = listing["left_out"]
    for path, content in _contents(bench, sandbox, listing["files"]):
        if content is None:
            left_out += 1
        else:
            hits += search(disguises, path.encode() + b"\n" + content, path)
    return hits, left_out


def _grading_data(bench: Bench) -> Iterator[Needle]:
    """From root_data, and from each step's own."""
    yield from needles_of_folder(bench.folder / "root_data")
    for evidence in bench.reference.evidence:
        for name, data in evidence.grading_data.items():
            yield from needles_in(bytes(data), f"the grading data {name}")


def _answer(bench: Bench, sandbox: Sandbox) -> Iterator[Needle]:
    """From what the solution handed in, without what lies there from the start: some tasks are to mend a file."""
    for file in (file for evidence in bench.reference.evidence for file in evidence.submission.files):
        if file.is_dir or file.size > MAX_FILE_BYTES:
            continue
        with open(file.data_path, "rb") as stream:
            needles = needles_in(stream.read(), f"the solution's {file.path}")
        try:
            before = sandbox.get_file(file.path, max_bytes=MAX_FILE_BYTES)
        except CallRefused:
            before = b""
        needles = [needle for needle in needles if needle.text not in before]
        lines = sum(needle.whole > 0 for needle in needles)
        yield from (dataclasses.replace(needle, whole=lines) if needle.whole else needle for needle in needles)


def _listing(sandbox: Sandbox, *, whole_image: bool) -> dict[str, Any]:
    argv = ["/usr/bin/python3", "-I", "-c", LISTING, json.dumps(whole_image)]
    done = sandbox.run(argv, user="student", timeout_s=LIST_TIMEOUT_S)
    if done.exit_code != 0:
        raise RuntimeError(f"the machine's files could not be listed: {done.stderr.decode('utf-8', 'replace')[-300:]}")
    listing: dict[str, Any] = json.loads(done.stdout)
    return listing


def _contents(bench: Bench, sandbox: Sandbox, files: list[Any]) -> Iterator[tuple[str, bytes | None]]:
    """Each file, None when it can't be fetched; what is as it lies in the environment's folder was searched there."""
    room = MAX_TOTAL_BYTES
    for path, size in files:
        room -= size if size <= MAX_FILE_BYTES else 0
        if size > MAX_FILE_BYTES or room < 0:
            if not _lies_in_folder(bench, path, size):
                yield path, None
            continue
        try:
            yield path, sandbox.get_file(path, max_bytes=MAX_FILE_BYTES)
        except CallRefused:
            yield path, None


def _lies_in_folder(bench: Bench, path: str, size: int) -> bool:
    for name, place in DATA_FOLDERS.items():
        if path.startswith(place + "/"):
            source = bench.folder / name / path.removeprefix(place + "/")
            return source.is_file() and source.stat().st_size == size
    return False
