"""The episode's score against those of its steps: what a record may say at all, and what the task makes of its steps."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import ValidationError

from karotte_gym.errors import ConfigError, EvidenceError
from karotte_gym.record import CompletionRecord, StepRecord
from karotte_gym.scoring import Scoring
from karotte_gym.task import Task

__all__ = ["combined_score", "combines_by_itself", "graded_steps", "is_of_its_steps", "scoring_of", "wrong_score"]


def combined_score(task: Task, scorings: Sequence[Scoring]) -> float:
    """A number from 0 to 1 like any score, or the author is told."""
    value = task.combine_scores(tuple(scorings))
    try:
        return Scoring(value).score
    except ValidationError as error:
        raise ConfigError(f"task {task.id}: combine_scores must return a number from 0 to 1, not {value!r}") from error


def combines_by_itself(task: type[Task]) -> bool:
    """Whether the episode's score is something else than that of the last scored step."""
    return task.combine_scores is not Task.combine_scores


def graded_steps(record: CompletionRecord) -> list[StepRecord]:
    """Those with a score."""
    return [step for step in record.steps if step.score is not None]


def is_of_its_steps(record: CompletionRecord) -> bool:
    """Whether the score is what the task made of its steps; that of misbehaviour, limits and faults is not."""
    return record.score is not None and record.error is record.misbehavior is record.limit is None


def scoring_of(step: StepRecord) -> Scoring:
    """As the record holds it, without whether it stopped the task. EvidenceError when no judge can have said so."""
    try:
        return Scoring(step.score or 0.0, step.metadata)
    except ValidationError as error:
        raise EvidenceError(f"no judge gives the scoring of step {step.step}: {error.errors()[0]['msg']}") from error


def wrong_score(record: CompletionRecord) -> str | None:
    """What no episode leaves, whatever its task, as a sentence: `Episode.score`, the other way round. None when it may be."""
    graded = graded_steps(record)
    if record.error is not None:
        expected = "none, since it names an error"
        right = record.score is None
    elif record.misbehavior is not None or record.limit is not None:
        expected = "0, since it names misbehaviour or a limit"
        right = record.score == 0
    elif not graded:
        expected = "none, since no step has one"
        right = record.score is None
    else:
        expected = "one, since its steps have"
        right = record.score is not None
    if not right:
        return f"its score is {_word(record.score)} and would be {expected}"
    if graded != record.steps[: len(graded)]:
        return "a step without a score comes before one that has one"
    return None


def _word(score: float | None) -> str:
    return "none" if score is None else str(score)
