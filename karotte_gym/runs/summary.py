"""What a run came to: mean and spread over verdicts, pass@k, misbehaviour and errors by kind.

Episodes without a verdict are counted and left out of every mean: an overloaded provider is not a weak student.
"""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Iterable
from typing import Any

from pydantic import BaseModel, ConfigDict

from karotte_gym.agents.episode import Episode

__all__ = ["Summary", "pass_at_k", "summarize"]

SUCCESS = 1.0  # the reward from which an episode counts as passed: full score


class Summary(BaseModel):
    """Numbers of one run. Means are None when no episode has a verdict."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    episodes: int
    verdicts: int
    mean: float | None
    stdev: float | None
    standard_error: float | None
    lowest: float | None
    highest: float | None
    passed: int
    pass_at_k: dict[int, float]
    statuses: dict[str, int]
    misbehavior: dict[str, int]
    limits: dict[str, int]
    errors: dict[str, int]
    turns_mean: float | None
    duration_mean_s: float | None
    input_tokens: int
    output_tokens: int
    cost_usd: float | None


def pass_at_k(tries: int, passed: int, k: int) -> float:
    """Chance that at least one of `k` drawn from `tries` passed (the unbiased estimate, without replacement)."""
    if not 1 <= k <= tries:
        raise ValueError(f"k is from 1 to {tries}, not {k}")
    return 1.0 - math.comb(tries - passed, k) / math.comb(tries, k)


def summarize(episodes: Iterable[Episode]) -> Summary:
    """The summary of a run's episodes."""
    every = list(episodes)
    judged = [episode for episode in every if episode.has_verdict]
    rewards = [float(episode.reward or 0.0) for episode in judged]
    passed = sum(reward >= SUCCESS for reward in rewards)
    spread = statistics.stdev(rewards) if len(rewards) > 1 else None
    costs = [episode.tokens.cost_usd for episode in every]
    return Summary(
        episodes=len(every),
        verdicts=len(judged),
        mean=_mean(rewards),
        stdev=spread,
        standard_error=spread / math.sqrt(len(rewards)) if spread is not None else None,
        lowest=min(rewards, default=None),
        highest=max(rewards, default=None),
        passed=passed,
        pass_at_k={k: pass_at_k(len(rewards), passed, k) for k in _powers(len(rewards))},
        statuses=_count(episode.status for episode in every),
        misbehavior=_count(episode.misbehavior_kind or "unnamed" for episode in every if episode.misbehavior),
        limits=_count(episode.limit for episode in every if episode.limit),
        errors=_count(episode.error.kind for episode in every if episode.status == "error" and episode.error),
        turns_mean=_mean([len(episode.turns) for episode in judged]),
        duration_mean_s=_mean([episode.duration_s for episode in judged]),
        input_tokens=sum(episode.tokens.input_tokens for episode in every),
        output_tokens=sum(episode.tokens.output_tokens for episode in every),
        cost_usd=None if None in costs else sum(cost or 0.0 for cost in costs),
    )


def _powers(limit: int) -> list[int]:
    return [2**power for power in range(limit.bit_length()) if 2**power <= limit]


def _mean(values: list[Any]) -> float | None:
    return statistics.fmean(values) if values else None


def _count(values: Iterable[str]) -> dict[str, int]:
    return dict(sorted(Counter(values).items()))
