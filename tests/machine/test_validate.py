"""What only shows when it is played is named by its check, and the sound task is green where all the others are red.

Each defect is put before its own check only, so that a whole run fits into minutes.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from karotte_gym.validate import CHECKS, Verdict, validate
from tests.defective import DEFECTS, Defect, checked, made, named

pytestmark = [pytest.mark.machine, pytest.mark.timeout(600)]
PLAYED = [check.id for check in CHECKS if check.cost != "read" and check.id != "generic-attacks"]  # that is test_attacks


@pytest.mark.parametrize("defect", [each for each in DEFECTS if each.needs_machines], ids=lambda each: each.name)
def test_a_defect_that_shows_in_a_machine_is_named(defect: Defect, tmp_path: Path) -> None:
    findings = checked(defect, tmp_path)
    assert named(defect, findings), findings


def test_the_sound_task_is_green_in_every_check_that_plays(tmp_path: Path) -> None:
    findings = validate(made("sound", tmp_path, register=True), only=PLAYED, quick=True)
    assert {finding.verdict for finding in findings} == {Verdict.OK}, findings
