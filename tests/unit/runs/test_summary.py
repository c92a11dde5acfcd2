"""Numbers of a run: what counts, what does not, and pass@k."""

from __future__ import annotations

import itertools

import pytest

from karotte_gym.agents.episode import Episode, EpisodeError, TokenTotals
from karotte_gym.runs.summary import pass_at_k, summarize


def episode(reward: float | None, **fields: object) -> Episode:
    status = "error" if reward is None else "scored"
    return Episode(**{"status": status, "reward": reward, **fields})  # type: ignore[arg-type]


def test_episodes_without_a_verdict_are_left_out_of_every_mean() -> None:
    summary = summarize([episode(1.0), episode(0.0), episode(None, error=EpisodeError(kind="server", message="x"))])
    assert (summary.episodes, summary.verdicts, summary.mean) == (3, 2, 0.5)
    assert summary.errors == {"server": 1} and summary.pass_at_k == {1: 0.5, 2: 1.0}


def test_an_empty_run_has_no_mean() -> None:
    summary = summarize([episode(None)])
    assert (summary.mean, summary.stdev, summary.pass_at_k) == (None, None, {})


def test_misbehaviour_and_limits_are_counted_by_kind() -> None:
    bad = episode(0.0, status="misbehavior", misbehavior="a link", misbehavior_kind="custody")
    limit = episode(0.0, status="limit", limit="turns")
    summary = summarize([bad, bad, limit])
    assert summary.misbehavior == {"custody": 2} and summary.limits == {"turns": 1}
    assert summary.statuses == {"limit": 1, "misbehavior": 2}


def test_a_cost_is_unknown_as_soon_as_one_is() -> None:
    known = episode(1.0, tokens=TokenTotals(cost_usd=0.5))
    assert summarize([known, known]).cost_usd == 1.0
    assert summarize([known, episode(1.0, tokens=TokenTotals(cost_usd=None))]).cost_usd is None


@pytest.mark.parametrize(("tries", "passed", "k"), [(5, 2, 1), (5, 2, 3), (6, 0, 2), (6, 6, 2), (4, 1, 4)])
def test_pass_at_k_is_the_share_of_all_draws_with_a_success(tries: int, passed: int, k: int) -> None:
    draws = list(itertools.combinations([True] * passed + [False] * (tries - passed), k))
    assert pass_at_k(tries, passed, k) == pytest.approx(sum(map(any, draws)) / len(draws))
