"""What can be found by reading is found, by the check whose business it is, and a sound task is green."""

from __future__ import annotations

from pathlib import Path

import pytest

from karotte_gym.registration import load_task
from karotte_gym.validate import CHECKS, Verdict, validate
from tests.defective import DEFECTS, READING, Defect, checked, made, named


def test_there_are_enough_defects_and_each_is_the_business_of_a_check() -> None:
    assert len(DEFECTS) >= 12
    assert {defect.check for defect in DEFECTS} == {check.id for check in CHECKS} - {"generic-attacks"}


@pytest.mark.parametrize("defect", [each for each in DEFECTS if not each.needs_machines], ids=lambda each: each.name)
def test_a_defect_is_named_by_its_check_and_by_no_other(defect: Defect, tmp_path: Path) -> None:
    findings = checked(defect, tmp_path)
    assert named(defect, findings), findings


@pytest.mark.parametrize("name", ["sound", "q3-revenue"])
def test_a_sound_task_is_green(name: str, tmp_path: Path) -> None:
    task = made(name, tmp_path) if name == "sound" else load_task(name)
    findings = validate(task, only=READING)
    assert {finding.verdict for finding in findings} == {Verdict.OK}, findings
    assert [finding.check for finding in findings] == list(READING)


def test_what_the_student_is_meant_to_find_is_declared_and_then_no_leak(tmp_path: Path) -> None:
    task = made("answer_in_student_data", tmp_path)
    assert validate(task, only=["secrets-in-data"])[0].verdict is Verdict.FAIL
    task.known_to_student = ((task.folder() / "root_data" / "expected.txt").read_text().strip(),)
    assert validate(task, only=["secrets-in-data"])[0].verdict is Verdict.NOT_CHECKED
