"""Whether what the student gets holds a file of the task's own secrets, whatever it is called there."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from pathlib import Path

from karotte_gym.judges.executable import ExecutableJudge
from karotte_gym.validate.bench import Bench, parts_of
from karotte_gym.validate.finding import Finding, fail, warn

__all__ = ["check_copies"]

NAMES = ("solution.json", "grade.py", "root_data", "attacks")
OWN = ("__init__.py", "solution.json", "solution", "attacks", "root_data")


def check_copies(bench: Bench, given: Iterable[Path]) -> Iterator[Finding]:
    """Of all files that the student gets, those with the content of a secret one, and those with its name."""
    secrets = {_digest(path): path for path in _secret_files(bench) if path.stat().st_size}
    sizes = {path.stat().st_size for path in secrets.values()}
    for path in given:
        place, fix = path.relative_to(bench.folder), f"move it out of {path.relative_to(bench.folder).parts[0]}/"
        fix += ", all of which the student gets"
        same = secrets.get(_digest(path)) if path.is_file() and path.stat().st_size in sizes else None
        if same is not None:
            yield fail(f"{place} is the same as {same.relative_to(bench.folder)}", fix)
        elif path.name in NAMES:
            said = fail if path.name == "root_data" else warn
            yield said(f"{place} is called like what the student must not have", fix)


def _secret_files(bench: Bench) -> Iterator[Path]:
    parts = (part for step in bench.task_class.steps for part in parts_of(step.judge))
    scripts = [bench.folder / part.script for part in parts if isinstance(part, ExecutableJudge)]
    for path in [*(bench.folder / name for name in OWN), *scripts]:
        below = path.rglob("*") if path.is_dir() else [path]
        yield from sorted(each for each in below if each.is_file() and "__pycache__" not in each.parts)


def _digest(path: Path) -> str:
    with open(path, "rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
