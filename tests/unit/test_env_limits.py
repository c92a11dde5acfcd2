"""Limits of a step: what ends it, what that is worth, and that no student escapes them."""

# ruff: noqa: ARG001, ARG002 - `world` puts machines in memory in place
from __future__ import annotations

from typing import Any

import gymnasium as gym
import pytest
from karotte_gym.wrappers import CustodyGrading, MisbehaviorToZero
from memory_sandbox import World
from pydantic import ValidationError

from karotte_gym import Evidence, Judge, Scoring, Step, StepLimits, StudentMisbehavior, Task
from karotte_gym.config import Limits
from karotte_gym.env import KarotteEnv
from karotte_gym.sandbox.contract import CommandResult
from karotte_gym.step_budget import StepBudget

BASH = {"name": "bash", "arguments": {"command": "true"}}
SUBMIT = {"name": "submit", "arguments": {}}


class Right(Judge):
    def judge(self, evidence: Evidence) -> Scoring:
        return Scoring(0.75)


class Clock:
    """Seconds that pass when the test says so."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(StepBudget.__init__, "__defaults__", (clock,))
    return clock


def make(limits: StepLimits, steps: int = 1) -> gym.Env[Any, Any]:
    made = tuple(Step(f"Step {n + 1}.", ("/workdir/a",), Right(), limits=limits) for n in range(steps))
    env = KarotteEnv("q3-revenue")
    env.task_class = type("Limited", (Task,), {"id": "limited", "steps": made, "__module__": __name__})
    return MisbehaviorToZero(CustodyGrading(env))


def test_the_last_turn_is_answered_and_what_is_there_is_graded(world: World) -> None:
    with make(StepLimits(turns=2)) as env:
        env.reset()
        assert env.step(BASH)[1:4] == (0.0, False, False)
        world.answer = CommandResult(b"seen\n", 0, timed_out=False, cut_bytes=0, duration_s=0.0)
        obs, reward, terminated, truncated, info = env.step(BASH)
    assert (reward, terminated, truncated) == (0.75, False, True)
    assert obs["content"].startswith("seen") and "limit of turns (2)" in obs["content"]
    assert info["score"] == 0.75 and info["step_limit"] == "turns (2)"
    assert any("step 1 ended at its limit of turns (2)" in line for line in info["record"]["exceptions"])
    assert world.of("student")[0].ended_sessions == 1
    assert [message["role"] for message in info["messages"]] == ["assistant", "tool", "user"]


def test_nonsense_uses_up_turns_as_well(world: World) -> None:
    with make(StepLimits(turns=3)) as env:
        env.reset()
        for action in (None, {"name": "nothing"}):
            assert not any(env.step(action)[2:4])
        assert env.step("rubbish")[3]


def test_without_a_limit_the_same_student_goes_on_for_ever(world: World) -> None:
    with make(StepLimits()) as env:
        env.reset()
        assert not any(any(env.step(None)[2:4]) for _ in range(50))


def test_at_limit_error_ends_the_episode_with_0_and_is_never_dropped(world: World) -> None:
    with make(StepLimits(turns=1, at_limit="error")) as env:
        env.reset()
        _, reward, terminated, truncated, info = env.step(BASH)
    assert (reward, terminated, truncated) == (0.0, False, True)
    assert info["score"] == 0.0 and info["record"]["limit"] == "turns (1)" and info["record"]["steps"] == []
    assert any("turns (1)" in line for line in info["record"]["exceptions"])
    assert world.machines[0].closed


def test_an_error_in_a_later_step_takes_what_the_earlier_one_earned(world: World) -> None:
    with make(StepLimits(turns=2, at_limit="error"), steps=2) as env:
        env.reset()
        env.step(SUBMIT)
        env.step(BASH)
        _, reward, _, truncated, info = env.step(BASH)
    assert (reward, truncated, info["score"]) == (0.0, True, 0.0)
    assert info["record"]["steps"][0]["score"] == 0.75


def test_a_step_that_ends_at_its_limit_leads_to_the_next_one_with_limits_of_its_own(world: World) -> None:
    with make(StepLimits(turns=1), steps=2) as env:
        env.reset()
        obs, _, terminated, truncated, info = env.step(BASH)
        assert (terminated, truncated) == (False, False)
        assert obs["content"].endswith("Step 2.") and info["messages"][-1]["content"].endswith("Step 2.")
        assert world.machines[0].session
        assert env.step(BASH)[1:4] == (0.75, False, True)


def test_submitting_with_the_last_turn_is_an_ordinary_submit(world: World) -> None:
    with make(StepLimits(turns=1)) as env:
        env.reset()
        _, reward, terminated, truncated, info = env.step(SUBMIT)
    assert (reward, terminated, truncated) == (0.75, True, False)
    assert "step_limit" not in info


def test_time_runs_while_the_student_thinks_and_a_late_call_is_not_run(world: World, clock: Clock) -> None:
    with make(StepLimits(time_s=60)) as env:
        env.reset()
        clock.now += 61
        obs, reward, _, truncated, _ = env.step(BASH)
    assert world.asked == [] and (reward, truncated) == (0.75, True)
    assert "not run" in obs["content"] and "limit of time (60 s)" in obs["content"]


def test_a_late_submit_is_no_way_around_the_error(world: World, clock: Clock) -> None:
    with make(StepLimits(time_s=60, at_limit="error")) as env:
        env.reset()
        clock.now += 61
        assert env.step(SUBMIT)[1:4] == (0.0, False, True)


def test_a_command_is_cut_to_the_time_that_is_left(world: World, clock: Clock) -> None:
    with make(StepLimits(time_s=60)) as env:
        env.reset()
        clock.now += 50
        env.step({"name": "bash", "arguments": {"command": "sleep 1000", "timeout": 500}})
        env.step(BASH)
    assert [asked[1] for asked in world.asked] == [10, 10]


def test_context_is_counted_from_the_steps_own_chat(world: World) -> None:
    world.answer = CommandResult(b"x" * 4000, 0, timed_out=False, cut_bytes=0, duration_s=0.0)
    with make(StepLimits(context_tokens=1500), steps=2) as env:
        env.reset()
        assert not any(env.step(BASH)[2:4])
        obs, _, _, truncated, info = env.step(BASH)
        assert not truncated and "context" in info["step_limit"] and obs["content"].endswith("Step 2.")
        assert "step_limit" not in env.step(BASH)[4], "the first step's chat is not the second's"


def test_what_is_left_is_told_only_where_the_task_wants_it(world: World, clock: Clock) -> None:
    shown = StepLimits(time_s=60, turns=3, show_remaining_time=True, show_remaining_turns=True)
    with make(shown) as env:
        env.reset()
        clock.now += 20
        assert env.step(BASH)[0]["content"] == "[2 turns and 40 s left for this step]"
        obs, _, _, _, info = env.step("rubbish")
        assert (
            obs["content"].endswith("[1 turn and 40 s left for this step]")
            and info["messages"][-1]["content"] == obs["content"]
        )
    with make(StepLimits(time_s=60, turns=3)) as env:
        env.reset()
        assert env.step(BASH)[0]["content"] == ""


def test_misbehavior_found_at_a_limit_is_still_0(world: World) -> None:
    with make(StepLimits(turns=1)) as env:
        env.reset()
        world.refusal = StudentMisbehavior("custody", "a link")
        _, reward, terminated, _, info = env.step(BASH)
    assert (reward, terminated, info["misbehavior"]) == (0.0, True, "a link")


@pytest.mark.parametrize(
    "fields",
    [
        {"turns": 0},
        {"time_s": 0},
        {"time_s": float("nan")},
        {"time_s": float("inf")},
        {"context_tokens": -1},
        {"at_limit": "stop"},
        {"show_remaining_time": True},
        {"show_remaining_turns": True, "time_s": 1},
    ],
)
def test_limits_that_mean_nothing_are_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        StepLimits(**fields)


def test_without_a_time_limit_a_tasks_own_limits_stay_as_they_are() -> None:
    limits = Limits()
    assert StepBudget(StepLimits()).cut(limits) is limits
