"""The loop by itself, with scripted students: who is to blame for what, and what the transcript holds."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from karotte_gym.agents import (
    ContextExceeded,
    Episode,
    FunctionAgent,
    ProviderError,
    RolloutLimits,
    ScriptedAgent,
    StopSignal,
    Turn,
    Usage,
    calling,
    rollout,
    saying,
)
from karotte_gym.errors import MachineError
from tests.unit.agents.little_env import LittleEnv

ANSWER = {"name": "bash", "arguments": {"command": "answer 42"}}
SUBMIT = {"name": "submit", "arguments": {}}


def look(number: int = 0) -> dict[str, Any]:
    return {"name": "bash", "arguments": {"command": f"look {number}"}}


def well_formed(messages: list[dict[str, Any]]) -> bool:
    """Whether a chat API would take it: each call answered once, right after its message, in order."""
    position = 0
    while position < len(messages):
        calls = [call["id"] for call in messages[position].get("tool_calls") or ()]
        answers = messages[position + 1 : position + 1 + len(calls)]
        if [answer.get("tool_call_id") for answer in answers] != calls:
            return False
        position += 1 + len(calls)
        if position < len(messages) and messages[position]["role"] == "tool":
            return False
    return True


def test_the_honest_script_earns_one() -> None:
    episode = rollout(LittleEnv(), ScriptedAgent([ANSWER, SUBMIT]), seed=3)
    assert (episode.status, episode.reward, episode.score, episode.seed) == ("scored", 1.0, 1.0, 3)
    assert episode.record is not None and well_formed(episode.messages)


def test_a_wrong_answer_is_scored_zero_and_no_error() -> None:
    episode = rollout(LittleEnv(), ScriptedAgent([SUBMIT]))
    assert (episode.status, episode.reward, episode.error) == ("scored", 0.0, None)


def test_misbehaviour_is_zero_with_its_kind() -> None:
    episode = rollout(LittleEnv(), ScriptedAgent([{"name": "bash", "arguments": {"command": "break"}}]))
    assert (episode.status, episode.reward, episode.misbehavior_kind) == ("misbehavior", 0.0, "processes")


def test_calls_of_one_message_run_in_order() -> None:
    env = LittleEnv()
    episode = rollout(env, ScriptedAgent([[look(1), look(2), ANSWER, SUBMIT]]))
    assert env.commands == ["look 1", "look 2", "answer 42"]
    assert episode.reward == 1.0 and len(episode.turns) == 1 and well_formed(episode.messages)


def test_calls_after_a_submission_in_the_same_message_are_not_run() -> None:
    env = LittleEnv(steps=2)
    episode = rollout(env, ScriptedAgent([[SUBMIT, look(9)], ANSWER, SUBMIT]))
    assert "look 9" not in env.commands
    assert episode.reward == 1.0 and well_formed(episode.messages)
    assert any("Not run" in str(message["content"]) for message in episode.messages)


def test_text_without_a_call_ends_the_step() -> None:
    episode = rollout(LittleEnv(), ScriptedAgent([ANSWER, "I am done."]))
    assert (episode.status, episode.reward) == ("scored", 1.0)


def test_text_does_not_end_the_step_where_the_task_says_so() -> None:
    episode = rollout(LittleEnv(text_ends_step=False), ScriptedAgent(["thinking aloud", ANSWER, SUBMIT]))
    assert episode.reward == 1.0 and len(episode.turns) == 3


def test_an_empty_turn_is_asked_to_go_on() -> None:
    episode = rollout(LittleEnv(), ScriptedAgent(["", " \n", ANSWER, "", SUBMIT]))
    assert episode.reward == 1.0
    assert [turn.stop for turn in episode.turns].count("empty") == 3
    assert well_formed(episode.messages) and "" not in [message["content"] for message in episode.messages]


@pytest.mark.parametrize(("at_limit", "status", "reward"), [("zero", "limit", 0.0), ("submit", "scored", 1.0)])
def test_who_says_nothing_three_times_is_not_dropped(at_limit: Any, status: str, reward: float) -> None:
    """A policy that falls silent whenever it would lose gets the 0 that it fled from."""
    episode = rollout(LittleEnv(), ScriptedAgent([ANSWER, "", "", "", SUBMIT]), limits=RolloutLimits(at_limit=at_limit))
    assert (episode.status, episode.reward, episode.limit) == (status, reward, "empty_turns")
    assert episode.error is not None and episode.error.kind == "empty_turns"


def test_a_turn_cut_by_length_goes_on_and_keeps_its_text() -> None:
    cut = replace(saying("first half"), stop="length")
    turns = iter([cut, calling([ANSWER, SUBMIT])])
    episode = rollout(LittleEnv(), FunctionAgent(lambda *_: next(turns)))
    assert episode.reward == 1.0 and "first half" in [message["content"] for message in episode.messages]


def test_a_content_filter_stop_ends_the_step_without_running_anything() -> None:
    env = LittleEnv()
    turns = iter([calling([ANSWER]), replace(calling([look(1)]), actions=[], stop="content_filter")])
    episode = rollout(env, FunctionAgent(lambda *_: next(turns)))
    assert (episode.status, episode.reward, env.commands) == ("scored", 1.0, ["answer 42"])


@pytest.mark.parametrize("arguments", ['{"command": ', "[]", "null", "", '"text"', "\ud800"])
def test_malformed_arguments_are_an_error_result_and_the_episode_goes_on(arguments: str) -> None:
    bad = {"id": "x", "type": "function", "function": {"name": "bash", "arguments": arguments}}
    episode = rollout(LittleEnv(), ScriptedAgent([bad, ANSWER, SUBMIT]))
    assert episode.reward == 1.0 and well_formed(episode.messages)
    assert "error" in episode.messages[3]["content"]


@pytest.mark.parametrize("name", [None, "", "no such tool", "a" * 500, 'bash"}', "böse", 7])
def test_a_call_of_nonsense_stays_fit_for_every_provider(name: Any) -> None:
    bad = {"function": {"name": name, "arguments": "{}"}}
    episode = rollout(LittleEnv(), ScriptedAgent([bad, ANSWER, SUBMIT]))
    kept = episode.messages[2]["tool_calls"][0]["function"]["name"]
    assert episode.reward == 1.0 and kept.replace("_", "").replace("-", "").isalnum() and len(kept) <= 64


def test_a_provider_error_is_no_score() -> None:
    def failing(messages: list[dict[str, Any]], _: object) -> Turn:
        if len(messages) > 3:
            raise ProviderError("server", "gone", [{"kind": "server"}])
        return calling([ANSWER])

    episode = rollout(LittleEnv(), FunctionAgent(failing))
    assert (episode.status, episode.reward, episode.score) == ("error", None, None)
    assert episode.error is not None and episode.error.failures == [{"kind": "server"}]
    assert len(episode.messages) == 4  # what was said until then is there


def test_a_machine_that_can_not_be_started_is_no_score() -> None:
    episode = rollout(LittleEnv(fail_reset=MachineError("no space")), ScriptedAgent([]))
    assert episode.error is not None and (episode.error.kind, episode.reward) == ("MachineError", None)


def test_a_mistake_in_an_agent_raises_and_still_leaves_the_transcript() -> None:
    kept: list[Episode] = []

    def wrong(messages: list[dict[str, Any]], _: object) -> Turn:
        if len(messages) > 3:
            raise KeyError("oops")
        return calling([ANSWER])

    with pytest.raises(KeyError):
        rollout(LittleEnv(), FunctionAgent(wrong), sink=kept.append)
    assert (kept[0].status, kept[0].reward, len(kept[0].messages)) == ("error", None, 4)


def forever(*_: object) -> Turn:
    return replace(calling([look()]), usage=Usage(input_tokens=1000, output_tokens=100, cost_usd=0.25))


@pytest.mark.parametrize(
    ("limits", "name", "turns"),
    [
        ({"max_turns": 3}, "turns", 3),
        ({"max_context_tokens": 1100}, "context", 1),
        ({"max_cost_usd": 0.6}, "cost", 3),
    ],
)
def test_a_limit_is_zero_with_its_name(limits: dict[str, Any], name: str, turns: int) -> None:
    episode = rollout(LittleEnv(), FunctionAgent(forever), limits=RolloutLimits(**limits))
    assert (episode.status, episode.reward, episode.limit, len(episode.turns)) == ("limit", 0.0, name, turns)


def test_a_limit_may_hand_in_what_is_there() -> None:
    limits = RolloutLimits(max_turns=1, at_limit="submit")
    episode = rollout(LittleEnv(steps=3), ScriptedAgent([ANSWER, look()]), limits=limits)
    assert (episode.status, episode.reward, episode.limit) == ("scored", 1.0, "turns")


def test_time_lost_to_the_provider_is_not_the_students(monkeypatch: pytest.MonkeyPatch) -> None:
    now_s = [0.0]  # a clock of its own: a busy host adds nothing to the turns
    monkeypatch.setattr(sys.modules["karotte_gym.agents.rollout"], "time", SimpleNamespace(monotonic=lambda: now_s[0]))

    def slow(lost_s: float) -> Callable[..., Turn]:
        def act(*_: object) -> Turn:
            now_s[0] += 60
            return replace(calling([look()]), lost_s=lost_s)

        return act

    limits = RolloutLimits(max_time_s=100, max_turns=6)
    assert rollout(LittleEnv(), FunctionAgent(slow(0.0)), limits=limits).limit == "time"
    assert rollout(LittleEnv(), FunctionAgent(slow(60.0)), limits=limits).limit == "turns"


def test_a_conversation_that_outgrows_the_model_is_the_students_limit() -> None:
    def grows(messages: list[dict[str, Any]], _: object) -> Turn:
        if len(messages) > 4:
            raise ContextExceeded
        return calling([look()])

    episode = rollout(LittleEnv(), FunctionAgent(grows))
    assert (episode.status, episode.limit, episode.reward) == ("limit", "context", 0.0)


def test_instructions_that_do_not_fit_the_model_are_nobodys_zero() -> None:
    def never(*_: object) -> Turn:
        raise ContextExceeded

    episode = rollout(LittleEnv(), FunctionAgent(never))
    assert (episode.status, episode.reward) == ("error", None)


def test_a_cost_limit_without_a_price_is_refused() -> None:
    episode = rollout(LittleEnv(), ScriptedAgent([look()]), limits=RolloutLimits(max_cost_usd=1))
    assert episode.error is not None and episode.error.kind == "ConfigError"


def test_stopping_ends_an_episode_without_a_verdict() -> None:
    stop = StopSignal()
    episode = rollout(LittleEnv(), FunctionAgent(forever), stop=stop, on_turn=lambda _: stop.set())
    assert (episode.status, episode.reward, len(episode.turns)) == ("interrupted", None, 1)


def test_a_machine_that_ended_because_we_stopped_is_no_misbehaviour() -> None:
    stop = StopSignal()

    def act(*_: object) -> Turn:
        stop.set()
        return calling([{"name": "bash", "arguments": {"command": "break"}}])

    # the call is not made at all once stopped; the environment that breaks under a call is the other half
    assert rollout(LittleEnv(), FunctionAgent(act), stop=stop).status == "interrupted"

    class Breaking(LittleEnv):
        def step(self, action: Any) -> Any:
            stop2.set()
            return super().step(action)

    stop2 = StopSignal()
    broken = ScriptedAgent([{"name": "bash", "arguments": {"command": "break"}}])
    assert rollout(Breaking(), broken, stop=stop2).status == "interrupted"


def test_an_episode_survives_json() -> None:
    episode = rollout(LittleEnv(), ScriptedAgent([look(), ANSWER, SUBMIT]))
    assert Episode.model_validate_json(episode.model_dump_json()) == episode
