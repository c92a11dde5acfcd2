"""Waits by a fake clock: lengths, budgets and `retry-after`; the real sockets are in `test_llm_agent.py`."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from karotte_gym.models.errors import ProviderError, Stopped
from karotte_gym.models.failures import retry_after_s
from karotte_gym.models.retry import Failure, Retrying, RetryPolicy


class Clock:
    """Time that passes by waiting only."""

    def __init__(self, stop_after: int | None = None):
        self.now_s, self.waits, self.stop_after = 0.0, [], stop_after

    def wait(self, seconds: float) -> bool:
        self.waits.append(seconds)
        self.now_s += seconds
        return self.stop_after is not None and len(self.waits) >= self.stop_after


def attempts(*results: Failure | str) -> Callable[[], Failure | str]:
    left = list(results)
    return lambda: left.pop(0) if len(left) > 1 else left[0]


def retrying(clock: Clock, chance: float = 1.0, **budgets: float) -> Retrying:
    return Retrying(RetryPolicy(**budgets), clock.wait, now=lambda: clock.now_s, chance=lambda: chance)


def test_waits_double_up_to_the_cap() -> None:
    clock = Clock()
    failure = Failure("rate_limit", "slow down", 429)
    assert retrying(clock, max_wait_s=10).run(attempts(*[failure] * 6, "done")) == "done"
    assert clock.waits == [1, 2, 4, 8, 10, 10]


def test_jitter_takes_at_most_half() -> None:
    early, late = Clock(), Clock()
    failure = Failure("server", "oops", 500)
    retrying(early, chance=0.0).run(attempts(*[failure] * 3, "done"))
    retrying(late, chance=1.0).run(attempts(*[failure] * 3, "done"))
    assert early.waits == [wait / 2 for wait in late.waits]


@pytest.mark.parametrize("chance", [0.0, 0.5, 1.0])
def test_nobody_comes_back_before_the_provider_asked_for(chance: float) -> None:
    clock = Clock()
    retrying(clock, chance).run(attempts(Failure("rate_limit", "", 429, retry_after_s=30), "done"))
    assert 30 <= clock.waits[0] <= 33


def test_a_provider_that_asks_for_an_hour_ends_the_turn_at_once() -> None:
    clock = Clock()
    with pytest.raises(ProviderError, match="asked to wait 3600 s") as caught:
        retrying(clock).run(attempts(Failure("rate_limit", "quota", 429, retry_after_s=3600)))
    assert (caught.value.kind, clock.waits) == ("rate_limit", [])


@pytest.mark.parametrize(
    ("kind", "budget"),
    [
        ("rate_limit", "rate_limit"),
        ("server", "server"),
        ("timeout", "server"),
        ("unreachable", "unreachable"),
        ("authentication", "authentication"),
    ],
)
def test_each_kind_has_its_own_budget(kind: str, budget: str) -> None:
    clock = Clock()
    with pytest.raises(ProviderError) as caught:
        retrying(clock, **{budget: 2}).run(attempts(Failure(kind, "no")))  # type: ignore[arg-type]
    assert (len(clock.waits), caught.value.kind, len(caught.value.failures)) == (2, kind, 3)


def test_budgets_do_not_eat_each_other() -> None:
    clock = Clock()
    mixed = [Failure("rate_limit", "", 429), Failure("server", "", 500), Failure("unreachable", "")] * 2
    policy = {"rate_limit": 2, "server": 2, "unreachable": 2}
    assert retrying(clock, **policy).run(attempts(*mixed, "done")) == "done"


def test_what_the_provider_refuses_is_not_sent_again() -> None:
    clock = Clock()
    with pytest.raises(ProviderError, match="at the first attempt"):
        retrying(clock).run(attempts(Failure("refused", "bad request", 400)))
    assert clock.waits == []


def test_stopping_ends_a_wait() -> None:
    with pytest.raises(Stopped):
        retrying(Clock(stop_after=1)).run(attempts(Failure("server", "")))


def test_lost_time_is_what_failures_and_waits_cost() -> None:
    clock = Clock()
    run = retrying(clock)
    run.run(attempts(Failure("server", ""), Failure("server", ""), "done"))
    assert run.lost_s == sum(clock.waits) == 3


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry-after": "7"}, 7),
        ({"retry-after": "0.5"}, 0.5),
        ({"retry-after-ms": "250", "retry-after": "9"}, 0.25),
        ({"retry-after": "Sun, 29 Nov 2026 12:00:30 GMT"}, 30),
        ({"retry-after": "Sun, 29 Nov 2026 11:00:00 GMT"}, 0),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "-5"}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "inf"}, None),
        ({}, None),
    ],
)
def test_retry_after_is_read_in_all_its_forms(headers: dict[str, str], seconds: float | None) -> None:
    noon = 1795953600.0  # 2026-11-29 12:00:00 UTC
    assert retry_after_s(headers, noon) == seconds
