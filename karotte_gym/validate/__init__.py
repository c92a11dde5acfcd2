"""Proves a task sound, or says what is wrong with it before an optimizer finds out: `validate`, `CHECKS`."""

from karotte_gym.validate.catalogue import CHECKS
from karotte_gym.validate.finding import Finding, Verdict
from karotte_gym.validate.report import as_json, as_table, is_sound
from karotte_gym.validate.run import validate

__all__ = ["CHECKS", "Finding", "Verdict", "as_json", "as_table", "is_sound", "validate"]
