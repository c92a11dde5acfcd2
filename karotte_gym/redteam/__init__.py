"""Attacks as data, played against any environment: `load_pack`, `run_attacks`, `verdict_on`."""

from karotte_gym.redteam.pack import Attack, Expectation, generic_pack, load_pack, own_attacks, solution_of
from karotte_gym.redteam.runner import run_attacks
from karotte_gym.redteam.verdict import Outcome, verdict_on

__all__ = [
    "Attack",
    "Expectation",
    "Outcome",
    "generic_pack",
    "load_pack",
    "own_attacks",
    "run_attacks",
    "solution_of",
    "verdict_on",
]
