"""The rubric of the report, judged when the episode's configuration names a model, and noted as not judged when not."""

from __future__ import annotations

from dataclasses import dataclass

from karotte_gym import Criterion, RubricJudge, Scoring
from karotte_gym.judges.base import Evidence, GraderNeeds, Judge

__all__ = ["CRITERIA", "JUDGE_MODEL", "NOT_JUDGED", "ConfiguredRubric"]

JUDGE_MODEL = "judge_model"  # in the episode's store
REPORT = "/workdir/data/report.md"
NOT_JUDGED = "the rubric was not judged: the task's configuration names no judge_model"
CRITERIA = (
    Criterion("The report explains how the failure of the service at fault led to failed requests at the gateway."),
    Criterion("The summary can be understood by somebody who has seen neither the logs nor the code."),
    Criterion("The report says what should be done so that this does not happen again, and it fits the cause."),
)


@dataclass(frozen=True)
class ConfiguredRubric(Judge):
    """`RubricJudge` with the model of the episode's configuration. Beside facts only: alone it pays for nothing."""

    def criterion(self, needs: GraderNeeds) -> dict[str, str]:
        """As the rubric's, but for the model, which is the episode's."""
        return {
            **_rubric("configured").criterion(needs),
            "judge": type(self).__name__,
            "model": "judge_model of the task's config",
        }

    def judge(self, evidence: Evidence) -> Scoring:
        """The rubric's score, or full marks and a sentence that says why."""
        model = evidence.store.get(JUDGE_MODEL)
        if not model:
            return Scoring(1.0, {"reason": NOT_JUDGED})
        return _rubric(str(model)).judge(evidence)


def _rubric(model: str) -> RubricJudge:
    return RubricJudge(criteria=CRITERIA, model=model, files=(REPORT,))
