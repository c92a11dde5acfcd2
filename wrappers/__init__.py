"""Gymnasium wrappers: `CustodyGrading` scores what was taken into custody, `MisbehaviorToZero` ends cheats with 0.

`gym.make` stacks both. The bare environment pays nothing and raises `StudentMisbehavior`.
"""

from karotte_gym.wrappers.custody_grading import CustodyGrading
from karotte_gym.wrappers.misbehavior_to_zero import MisbehaviorToZero

__all__ = ["CustodyGrading", "MisbehaviorToZero"]
