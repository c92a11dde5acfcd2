"""Tasks of several steps: one machine, the student's files stay, each step is graded, the last score pays."""

# ruff: noqa: ARG001 - `world` puts machines in memory in place
from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

import pytest
from karotte_gym.wrappers import CustodyGrading, MisbehaviorToZero
from memory_sandbox import World

from karotte_gym import ConfigError, Evidence, Judge, Scoring, Step, StudentMisbehavior, Task
from karotte_gym.env import KarotteEnv

SUBMIT = {"name": "submit", "arguments": {}}


class Listed(Judge):
    """Scores from a list."""

    scores: ClassVar[Iterator[float]]

    def judge(self, evidence: Evidence) -> Scoring:
        return Scoring(next(self.scores), {"messages": len(evidence.messages)})


class TwoSteps(Task):
    id = "two-steps"
    steps = (
        Step("First, write /workdir/a.", ("/workdir/a",), Listed()),
        Step("Then, write /workdir/b.", ("/workdir/b",), Listed()),
    )


@pytest.fixture
def env(world: World):  # type: ignore[no-untyped-def]
    Listed.scores = iter([0.25, 0.75])
    made = MisbehaviorToZero(CustodyGrading(KarotteEnv(f"{__name__}:TwoSteps")))
    yield made
    made.close()


def test_the_machine_stays_and_the_last_score_pays(env, world) -> None:
    obs, _ = env.reset()
    assert obs["content"].startswith("First")
    obs, reward, terminated, _, info = env.step(SUBMIT)
    assert (reward, terminated) == (0.0, False)
    assert obs["content"].startswith("Then")
    assert [message["role"] for message in info["messages"]] == ["assistant", "tool", "user"]
    assert not world.machines[0].closed
    assert world.machines[0].session
    _, reward, terminated, _, info = env.step(SUBMIT)
    assert (reward, terminated, len(world.machines)) == (0.75, True, 1)
    assert [step["score"] for step in info["record"]["steps"]] == [0.25, 0.75]
    assert world.machines[0].ended_sessions == 2


def test_misbehavior_in_a_later_step_takes_all(env, world) -> None:
    env.reset()
    env.step(SUBMIT)
    world.refusal = StudentMisbehavior("custody", "a link")
    _, reward, terminated, _, info = env.step(SUBMIT)
    assert (reward, terminated, info["score"]) == (0.0, True, 0.0)
    assert info["record"]["steps"][0]["score"] == 0.25


def test_generated_is_refused_where_the_task_draws_no_data() -> None:
    with pytest.raises(ConfigError, match="draws no data"):
        KarotteEnv(f"{__name__}:TwoSteps", generated=True)


@pytest.mark.parametrize(("instructions", "paths"), [(5, ("/workdir/a",)), (None, ("/workdir/a",)), ("Do.", 5), ("Do.", (5,))])
def test_a_step_of_wrong_types_is_refused(instructions, paths) -> None:
    with pytest.raises(ConfigError):
        Step(instructions, paths, Listed())
