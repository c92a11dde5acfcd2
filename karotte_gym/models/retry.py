"""When to try again and how long to wait: exponential backoff with jitter, separate budgets, `retry-after` honoured.

Budgets are apart because the failures mean different things. A rate limit passes, so it is worth many attempts; a wrong
key does not, so it is worth one more (keys are rotated); a host that cannot be reached is usually a wrong URL.
Jitter, because hundreds of episodes that were refused together would otherwise come back together.
"""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field

from karotte_gym.models.errors import FailureKind, ProviderError, Stopped

__all__ = ["Failure", "RetryPolicy", "Retrying"]

T = TypeVar("T")
_FIRST_WAIT_S = 1.0
_EXTRA_JITTER = 0.1  # of a `retry-after`: never earlier than told, and not all at the same moment
Budget = Literal["rate_limit", "server", "unreachable", "authentication"]
_BUDGET_OF: dict[str, Budget] = {
    "rate_limit": "rate_limit",
    "server": "server",
    "timeout": "server",
    "unreachable": "unreachable",
    "authentication": "authentication",
}


@dataclass(frozen=True, slots=True)
class Failure:
    """One attempt that failed; `message` holds no secret. `retry_after_s` is what the provider asked for."""

    kind: FailureKind
    message: str
    status: int | None = None
    retry_after_s: float | None = None


class RetryPolicy(BaseModel):
    """Retries per turn, by what failed; a request that the provider refuses (other 4xx) is never sent again."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    rate_limit: int = Field(20, ge=0, description="429")
    server: int = Field(8, ge=0, description="5xx, overload, time-outs, dropped connections, broken streams")
    unreachable: int = Field(4, ge=0, description="no connection at all: refused, no such host, no route")
    authentication: int = Field(1, ge=0, description="401 and 403")
    max_wait_s: float = Field(60.0, gt=0, description="longest wait of our own choosing")
    max_retry_after_s: float = Field(900.0, gt=0, description="a provider that asks for more ends the episode instead")

    def wait_s(self, failure: Failure, retries_before: int, chance: float) -> float:
        """How long to wait; `chance` from 0 to 1 is the jitter."""
        if failure.retry_after_s is not None:
            return failure.retry_after_s * (1 + _EXTRA_JITTER * chance)
        full = min(self.max_wait_s, _FIRST_WAIT_S * 2.0 ** min(retries_before, 30))
        return full * (0.5 + 0.5 * chance)


class Retrying:
    """Runs attempts of one turn. `wait` sleeps and says whether to stop; tests give a fake one."""

    def __init__(
        self,
        policy: RetryPolicy,
        wait: Callable[[float], bool],
        *,
        now: Callable[[], float] = time.monotonic,
        chance: Callable[[], float] = random.random,
    ):
        self._policy, self._wait, self._now, self._chance = policy, wait, now, chance
        self.failures: list[dict[str, Any]] = []
        self.lost_s = 0.0

    def run(self, attempt: Callable[[], T | Failure]) -> T:
        """The first result that is no `Failure`. ProviderError when a budget is used up, Stopped when told to stop."""
        used: Counter[str] = Counter()
        while True:
            started = self._now()
            result = attempt()
            if not isinstance(result, Failure):
                return result
            wait_s = self._next_wait(result, used)
            self.failures.append({"kind": result.kind, "status": result.status, "message": result.message})
            if wait_s is None:
                raise ProviderError(result.kind, self._verdict(result), self.failures)
            self.failures[-1]["waited_s"] = round(wait_s, 3)
            if self._wait(wait_s):
                raise Stopped
            self.lost_s += self._now() - started

    def _next_wait(self, failure: Failure, used: Counter[str]) -> float | None:
        budget = _BUDGET_OF.get(failure.kind)
        if budget is None or used[budget] >= getattr(self._policy, budget):
            return None
        if failure.retry_after_s is not None and failure.retry_after_s > self._policy.max_retry_after_s:
            return None
        wait_s = self._policy.wait_s(failure, used[budget], self._chance())
        used[budget] += 1
        return wait_s

    def _verdict(self, failure: Failure) -> str:
        attempts = len(self.failures)
        tries = "at the first attempt" if attempts == 1 else f"after {attempts} attempts"
        asked = f" (asked to wait {failure.retry_after_s:.0f} s)" if failure.retry_after_s is not None else ""
        return f"the provider failed {tries}: {failure.kind}{asked}: {failure.message}"
