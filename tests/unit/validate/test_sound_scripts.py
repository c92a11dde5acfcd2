"""Nothing is found in sound scoring scripts, nor in those that ship."""

from __future__ import annotations

from pathlib import Path

import pytest

from karotte_gym.validate.script_rules import read
from tests.unit.validate.sound_scripts import SOUND

ROOT = Path(__file__).parents[3]
SHIPPED = [*ROOT.glob("envs/*/grade*.py"), *ROOT.glob("karotte_gym/templates/**/grade*"), ROOT / "tests/defects/sound/grade.py"]


@pytest.mark.parametrize("name", SOUND)
def test_nothing_is_found_in_a_sound_script_and_it_is_seen_where_the_submission_is_read(name: str) -> None:
    reading = read(SOUND[name])
    assert (reading.flaws, reading.sees_submission) == ((), True)


def test_there_are_graders_that_ship() -> None:
    assert len(SHIPPED) >= 7


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: str(path.relative_to(ROOT)))
def test_nothing_is_found_in_the_graders_that_ship(path: Path) -> None:
    reading = read(path.read_text(encoding="utf-8"))
    assert (reading.flaws, reading.sees_submission) == ((), True)
