"""`AlwaysPassJudge`: full score for whatever custody accepted. For first steps and for tests of a harness."""

from __future__ import annotations

from dataclasses import dataclass

from karotte_gym.judges.base import Evidence, Judge
from karotte_gym.scoring import Scoring

__all__ = ["AlwaysPassJudge"]


@dataclass(frozen=True, slots=True)
class AlwaysPassJudge(Judge):
    """Scores 1.0; the submission still has to pass custody."""

    def judge(self, evidence: Evidence) -> Scoring:  # noqa: ARG002
        """1.0."""
        return Scoring(1.0)
