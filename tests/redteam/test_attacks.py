"""Every attack ends as it must, and an honest episode after it still earns the full score."""

from __future__ import annotations

import itertools
import os
from pathlib import Path

import pytest

from karotte_gym.redteam import Attack, generic_pack, load_pack, own_attacks, run_attacks
from karotte_gym.registration import load_task

pytestmark = pytest.mark.machine

TASK = "q3-revenue"
PACKS = Path(__file__).parent / "packs"


def all_attacks() -> dict[str, list[Attack]]:
    """By pack and area: an area's attacks are played in order, since some bite only after their twins."""
    packs = {"generic": generic_pack(), "own": own_attacks(load_task(TASK))}
    packs |= {path.stem: load_pack(path) for path in sorted(PACKS.glob("*.json"))}
    by_area: dict[str, list[Attack]] = {}
    for pack, attacks in packs.items():
        for area, group in itertools.groupby(sorted(attacks, key=lambda attack: attack.area), lambda a: a.area):
            by_area[f"{pack}-{area}"] = list(group)
    return by_area


@pytest.mark.timeout(1500)
@pytest.mark.parametrize("use_cgroups", [True, pytest.param(False, marks=pytest.mark.slow)], ids=["groups", "no groups"])
@pytest.mark.parametrize(("name", "attacks"), all_attacks().items(), ids=list(all_attacks()))
def test_no_attack_pays_leaks_hangs_or_is_blamed_wrongly(name: str, attacks: list[Attack], use_cgroups: bool) -> None:  # noqa: ARG001
    parallel = 1 if "PYTEST_XDIST_WORKER" in os.environ else os.cpu_count() or 1  # workers play areas side by side
    outcomes = run_attacks(TASK, attacks, parallel=parallel, env_kwargs={"use_cgroups": use_cgroups})
    assert [(outcome.attack.name, outcome.failures) for outcome in outcomes if outcome.failures] == []
