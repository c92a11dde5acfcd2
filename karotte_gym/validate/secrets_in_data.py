"""Whether what the student gets of the environment's folder gives the answer away. Only files are read, nothing starts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from karotte_gym.validate.bench import Bench
from karotte_gym.validate.copies_in_data import check_copies
from karotte_gym.validate.finding import Finding, fail, not_checked
from karotte_gym.validate.haystack import Disguises, Hit, search
from karotte_gym.validate.needles import needles_of_folder, without_known
from karotte_gym.validate.told import strings_told

__all__ = ["DATA_FOLDERS", "check_secrets_in_data", "said_of"]

DATA_FOLDERS = {"student_data": "/workdir/data", "shared_data": "/workdir/shared"}
OF_IMAGE = ("image", "Containerfile")  # of the student's machine; the grader's are called otherwise
CHUNK_BYTES = 64 * 1024 * 1024
OVERLAP_BYTES = 4096  # more than the longest disguise of a needle
MAX_TOTAL_BYTES = 512 * 1024 * 1024
MAX_SHOWN = 5
FIX = "take it out of what the student gets; if it is to be found there, name it in known_to_student of the task"


def check_secrets_in_data(bench: Bench) -> Iterator[Finding]:
    """No string of root_data in files, names or what goes into the image, and no copy of the task's own secrets."""
    given = list(_given(bench.folder))
    yield from check_copies(bench, given)
    secrets = needles_of_folder(bench.folder / "root_data")
    yield from strings_told(secrets, bench.task_class)
    needles = without_known(secrets, bench.task_class)
    yield from _not_looked_for(bench.folder, {needle.source for needle in secrets}, all_known=bool(secrets) and not needles)
    disguises, budget = Disguises(needles), MAX_TOTAL_BYTES
    for path in given if needles else ():
        budget -= path.stat().st_size if path.is_file() else 0
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


def _not_looked_for(folder: Path, sources: set[str], *, all_known: bool) -> Iterator[Finding]:
    """What of root_data has nothing in it that could be told from chance."""
    root_data = folder / "root_data"
    paths = sorted(path for path in root_data.rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    silent = [name for path in paths if (name := f"root_data/{path.relative_to(root_data)}") not in sources]
    if all_known:
        yield not_checked("the student is told every string of root_data, or it is in known_to_student")
    if not paths:
        yield not_checked("there is no root_data, whose strings could be looked for")
    elif silent:
        shown = ", ".join(silent[:MAX_SHOWN]) + (f" and {len(silent) - MAX_SHOWN} more" if len(silent) > MAX_SHOWN else "")
        yield not_checked(f"{shown}: no string that is long enough to be looked for; only copies of the file would be found")


def _given(folder: Path) -> Iterator[Path]:
    """Files, links and directories; the place of a link is what is looked at, and not where it leads."""
    for name in (*DATA_FOLDERS, *OF_IMAGE):
        top = folder / name
        if top.is_file():
            yield top
        yield from sorted(path for path in top.rglob("*") if "__pycache__" not in path.parts)


def _search_file(disguises: Disguises, path: Path, folder: Path) -> Iterator[Hit]:
    place = str(path.relative_to(folder))
    yield from search(disguises, place.encode(), place)
    if path.is_symlink():
        yield from search(disguises, str(path.readlink()).encode(), f"the link {place}")
    if not path.is_file():
        return
    with open(path, "rb") as stream:
        tail = b""
        while chunk := stream.read(CHUNK_BYTES):
            yield from search(disguises, tail + chunk, place)
            tail = chunk[-OVERLAP_BYTES:]
