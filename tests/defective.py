"""Small environments with one deliberate defect each, in ``tests/defects``: a folder there holds what differs from
``sound``, and its ``defect.json`` the check that must name it and words (a pattern) of the sentence that must do so.
"""

from __future__ import annotations

import json
import re
import shutil
from dataclasses import dataclass
from pathlib import Path

from karotte_gym.registration import load_task, register_project
from karotte_gym.task import Task
from karotte_gym.validate import CHECKS, Finding, Verdict, validate

__all__ = ["DEFECTS", "READING", "Defect", "checked", "made", "named"]

HERE = Path(__file__).parent / "defects"
SOUND = HERE / "sound"
READING = tuple(check.id for check in CHECKS if check.cost == "read")
DATA_BYTES = 80 * 2**20  # of the defect that is too much data, which no repository should hold


@dataclass(frozen=True)
class Defect:
    """One folder."""

    name: str
    check: str
    words: str

    @property
    def needs_machines(self) -> bool:
        return self.check not in READING


def _defects() -> tuple[Defect, ...]:
    paths = sorted(HERE.glob("*/defect.json"))
    return tuple(Defect(path.parent.name, **json.loads(path.read_text())) for path in paths)


DEFECTS = _defects()


def made(name: str, into: Path, *, register: bool = False) -> type[Task]:
    """The environment of that name, put together in `into`; registered where machines are to be made of it."""
    folder = into / name
    shutil.copytree(SOUND, folder)
    if name != SOUND.name:
        shutil.copytree(HERE / name, folder, dirs_exist_ok=True)
    if name == "data_larger_than_disk":
        with open(folder / "student_data" / "large.bin", "wb") as stream:
            stream.truncate(DATA_BYTES)
    if name == "no_attacks":
        shutil.rmtree(folder / "attacks")
    if register:
        register_project(into)
    return load_task(str(folder))


def named(defect: Defect, findings: list[Finding]) -> bool:
    """Whether its check, and no other, fails, in its words."""
    failed = [finding for finding in findings if finding.verdict is Verdict.FAIL]
    return (
        {finding.check for finding in failed} == {defect.check}
        and any(re.search(defect.words, finding.found) for finding in failed)
        and all(finding.fix for finding in failed)
    )


def checked(defect: Defect, into: Path) -> list[Finding]:
    """What the checks that matter for it say: all that only read, or its own."""
    only = (defect.check,) if defect.needs_machines else READING
    return validate(made(defect.name, into, register=defect.needs_machines), only=only, quick=True)
