"""`RubricJudge`: a language model judges a submission, criterion by criterion, asked from the host.

A model can be talked into things, so this judge belongs beside one that can't be: ``ExecutableJudge() & RubricJudge(...)``.
What holds here: the submission is data in a fence (`fence`), an answer is exactly one JSON object (`rubric_prompt`), and
an error, a silence or anything unreadable is the server's failure: retried, and in the end a `GradingError`, never an
unmet criterion. A trainer that took it for one would punish its student for an outage.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from karotte_gym.errors import ConfigError, GradingError
from karotte_gym.judges.base import Evidence, GraderNeeds, Judge
from karotte_gym.judges.notes import plain
from karotte_gym.judges.rubric_documents import documents_of
from karotte_gym.judges.rubric_options import check_options
from karotte_gym.judges.rubric_panel import ask
from karotte_gym.judges.rubric_prompt import SYSTEM, USER, Vote
from karotte_gym.judges.submitted_files import SubmissionUnusable
from karotte_gym.models.errors import ContextExceeded, ProviderError
from karotte_gym.models.failures import ContentFiltered
from karotte_gym.models.retry import RetryPolicy
from karotte_gym.scoring import Scoring

__all__ = ["Criterion", "RubricJudge"]

MAX_CRITERIA = 32
MAX_VOTES = 15
MAX_WEIGHT = 1e300  # as many as there may be still have a finite sum
KEPT_REASON_CHARS = 500  # of one vote; fewer where there are many, since all of them have to fit the notes
KEPT_REASONS_CHARS = 8000  # of all votes; JSON writes a letter in up to six bytes
KEPT_CRITERION_CHARS = 80
# The operator's choice goes over the author's: an environment of somebody else's is judged by the model that is at hand.
MODEL_VARIABLE = "KAROTTE_GYM_JUDGE_MODEL"
BASE_VARIABLE = "KAROTTE_GYM_JUDGE_API_BASE"
RETRIES = RetryPolicy(rate_limit=10, server=5, unreachable=3, authentication=1, max_wait_s=30.0, max_retry_after_s=120.0)


@dataclass(frozen=True)
class Criterion:
    """One statement about the submission that is true or not, and what it counts beside the others."""

    text: str
    weight: float = 1.0

    def __post_init__(self) -> None:
        if not isinstance(self.text, str) or not self.text.strip():
            raise ConfigError(f"a Criterion is a sentence that is true or not, not {self.text!r}")
        if type(self.weight) not in (int, float) or not 0 < self.weight <= MAX_WEIGHT:
            raise ConfigError(f"weight {self.weight!r:.40} of a Criterion must be a number over 0, up to {MAX_WEIGHT:g}")


@dataclass(frozen=True)
class RubricJudge(Judge):
    """The weight of the criteria that are met, over the weight of all. One call for each criterion and vote.

    `model` is litellm's name for it; its key comes from the provider's usual variable, or from `api_key`, which names
    another one (``"$MY_KEY"``). ``KAROTTE_GYM_JUDGE_MODEL`` and ``KAROTTE_GYM_JUDGE_API_BASE`` go over `model` and
    `api_base`. `votes` is odd: most of them decide a criterion. `files` are submitted files or directories, () for all;
    `include_messages` adds what the student said and called in this step. A submission of more than `max_bytes`, or one
    that the provider declines or finds too long, is a score of 0 with the reason: it can be written to be any of them.
    `extra` goes into each request as it is, e.g. ``{"response_format": {"type": "json_object"}}``.
    """

    criteria: tuple[Criterion, ...]
    model: str
    votes: int = 1
    files: tuple[str, ...] = ()
    include_messages: bool = False
    max_bytes: int = 200_000
    timeout_s: float = 120.0
    api_base: str | None = None
    api_key: str | None = None
    temperature: float | None = None
    retries: RetryPolicy = RETRIES
    extra: Mapping[str, Any] | None = None

    def __post_init__(self) -> None:
        _check_criteria(self.criteria)
        if not isinstance(self.model, str) or not re.fullmatch(r"[^\s]+", self.model):
            raise ConfigError(f"a model is named like anthropic/claude-sonnet-5, not {self.model!r}")
        if type(self.votes) is not int or self.votes not in range(1, MAX_VOTES + 1, 2):
            raise ConfigError(f"votes {self.votes!r} must be an odd number up to {MAX_VOTES}, so that they decide")
        if not isinstance(self.files, tuple) or not all(isinstance(path, str) and path[:1] == "/" for path in self.files):
            raise ConfigError(f'files must be a tuple of submitted paths: ("/workdir/report.md",), not {self.files!r}')
        if type(self.max_bytes) is not int or self.max_bytes <= 0:
            raise ConfigError(f"max_bytes {self.max_bytes!r} must be a whole number of bytes")
        if type(self.timeout_s) not in (int, float) or not 0 < self.timeout_s <= 3600:
            raise ConfigError(f"timeout_s {self.timeout_s!r} must be a number from 0 to 3600 seconds")
        if self.api_key is not None and not (isinstance(self.api_key, str) and self.api_key.startswith("$")):
            raise ConfigError('api_key names an environment variable, like "$MY_PROVIDER_KEY": a key has no place in code')
        check_options(self.api_base, self.temperature, self.retries, self.extra)

    def criterion(self, needs: GraderNeeds) -> dict[str, str]:  # noqa: ARG002
        """Class, model, votes, criteria, what is shown and how much, temperature, and a digest of the words around it."""
        return {
            "judge": type(self).__name__,
            "model": self._model(),
            "votes": str(self.votes),
            "criteria": json.dumps([[each.text, each.weight] for each in self.criteria], ensure_ascii=False),
            "files": json.dumps(self.files),
            "include_messages": str(self.include_messages).lower(),
            "max_bytes": str(self.max_bytes),
            **({} if self.temperature is None else {"temperature": repr(float(self.temperature))}),
            "prompt_sha256": hashlib.sha256((SYSTEM + USER).encode()).hexdigest(),
        }

    def judge(self, evidence: Evidence) -> Scoring:
        """Ask for every criterion, as often as there are votes."""
        questions = [each.text for each in self.criteria for _ in range(self.votes)]
        try:
            documents = documents_of(evidence, self.files, self.include_messages, self.max_bytes)
            votes = ask(self._options(), questions, documents, self.max_bytes)
        except (SubmissionUnusable, ContextExceeded, ContentFiltered) as error:
            return Scoring(0.0, {"model": self._model(), "reason": str(error)})
        except ProviderError as error:
            raise GradingError(f"RubricJudge has no verdict from {self._model()}: {error}") from error
        return self._scoring([votes[start : start + self.votes] for start in range(0, len(votes), self.votes)])

    def _scoring(self, votes: Sequence[Sequence[Vote]]) -> Scoring:
        met = [2 * sum(vote.met for vote in each) > len(each) for each in votes]
        weights = [each.weight for each in self.criteria]
        reached = math.fsum(weight for weight, yes in zip(weights, met, strict=True) if yes)
        room = min(KEPT_REASON_CHARS, KEPT_REASONS_CHARS // (len(votes) * self.votes))
        notes = [
            {
                "criterion": plain(each.text, KEPT_CRITERION_CHARS),
                "weight": each.weight,
                "met": yes,
                "votes": [vote.met for vote in cast],
                "reasons": [plain(vote.reason, room) for vote in cast],
            }
            for each, yes, cast in zip(self.criteria, met, votes, strict=True)
        ]
        cost_usd = math.fsum(vote.cost_usd or 0.0 for cast in votes for vote in cast)
        return Scoring(reached / math.fsum(weights), {"model": self._model(), "cost_usd": cost_usd, "criteria": notes})

    def _model(self) -> str:
        return os.environ.get(MODEL_VARIABLE) or self.model

    def _options(self) -> dict[str, Any]:
        return {
            "model": self._model(),
            "api_base": os.environ.get(BASE_VARIABLE) or self.api_base,
            "api_key": self.api_key,
            "temperature": self.temperature,
            "timeout_s": self.timeout_s,
            "retries": self.retries,
            "extra": self.extra,
        }


def _check_criteria(criteria: object) -> None:
    if not isinstance(criteria, tuple) or not all(isinstance(each, Criterion) for each in criteria):
        raise ConfigError('criteria must be a tuple of Criterion: (Criterion("names the failing host"),)')
    if not 1 <= len(criteria) <= MAX_CRITERIA:
        raise ConfigError(f"a RubricJudge has 1 to {MAX_CRITERIA} criteria, not {len(criteria)}")
