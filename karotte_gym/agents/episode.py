"""`Episode`: all that is left of one rollout, and its verdict.

The verdict is what a score may be computed from. An episode that failed for the provider's or our own sake has none:
its reward is None, never 0, and a mean over episodes has to leave it out.
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from karotte_gym.agents.turn import Turn

__all__ = ["Episode", "EpisodeError", "LimitHit", "Status", "TokenTotals", "TurnRecord"]

Status = Literal["scored", "misbehavior", "limit", "error", "interrupted"]
LimitHit = Literal["turns", "time", "context", "cost", "empty_turns", "environment"]


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid")


class EpisodeError(_Model):
    """Why there is no verdict, or what a limit means. `kind` counts (of a `ProviderError`, a class name, `empty_turns`)."""

    kind: str
    message: str
    failures: list[dict[str, Any]] = []


class TokenTotals(_Model):
    """Sums over the turns. `cost_usd` is None as soon as one turn's price is not known."""

    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    reasoning_tokens: int = 0
    cost_usd: float | None = 0.0


class TurnRecord(_Model):
    """One turn of the model, beside its message: what training and accounting want."""

    message_index: int | None = Field(description="of its message in `messages`; None for an empty turn")
    stop: str
    input_tokens: int = 0
    output_tokens: int = 0
    cost_usd: float | None = None
    duration_s: float = 0.0
    lost_s: float = Field(0.0, description="of the duration: failed attempts and waiting for the provider")
    failures: list[dict[str, Any]] = []
    token_ids: list[int] | None = None
    prompt_token_ids: list[int] | None = None
    logprobs: list[dict[str, Any]] | None = None


class Episode(_Model):
    """One episode as it ended. Plain data: `model_dump_json` is the transcript that runs keep."""

    format: Literal[1] = 1
    task_id: str = ""
    run_id: str = ""
    runtime: str = ""
    agent: str = ""
    seed: int | None = None
    status: Status = "error"
    reward: float | None = Field(None, description="sum of the rewards; None: no verdict")
    rewards: list[float] = Field([], description="one for each call that reached the environment")
    score: float | None = None
    misbehavior: str | None = None
    misbehavior_kind: str | None = None
    limit: LimitHit | None = Field(None, description="what ended it; with status `scored`: graded as it stood")
    error: EpisodeError | None = None
    messages: list[dict[str, Any]] = []
    turns: list[TurnRecord] = []
    tools: list[dict[str, Any]] = Field([], description="about each call: name, exit code, duration, cut, timed out")
    contracts: list[dict[str, Any]] = []
    record: dict[str, Any] | None = Field(None, description="the completion record")
    tokens: TokenTotals = TokenTotals()
    started_at: str = ""
    duration_s: float = 0.0
    agent_s: float = 0.0
    environment_s: float = 0.0
    lost_s: float = 0.0

    @property
    def has_verdict(self) -> bool:
        """Whether `reward` may be counted."""
        return self.reward is not None

    def count(self, turn: Turn, duration_s: float, message_index: int | None) -> None:
        """Add a turn to the totals."""
        used, totals = turn.usage, self.tokens
        totals.input_tokens += used.input_tokens
        totals.output_tokens += used.output_tokens
        totals.cached_tokens += used.cached_tokens
        totals.reasoning_tokens += used.reasoning_tokens
        known = totals.cost_usd is not None and used.cost_usd is not None
        totals.cost_usd = (totals.cost_usd or 0.0) + (used.cost_usd or 0.0) if known else None
        self.agent_s += duration_s
        self.lost_s += turn.lost_s
        self.turns.append(
            TurnRecord(
                message_index=message_index,
                stop=turn.stop,
                input_tokens=used.input_tokens,
                output_tokens=used.output_tokens,
                cost_usd=used.cost_usd,
                duration_s=duration_s,
                lost_s=turn.lost_s,
                failures=turn.failures,
                token_ids=turn.token_ids,
                prompt_token_ids=turn.prompt_token_ids,
                logprobs=turn.logprobs,
            )
        )
