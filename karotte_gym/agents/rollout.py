"""`rollout(env, agent)`: one episode, from reset to its verdict.

Who is to blame decides what an episode is worth. The student's doing (misbehaviour, a limit, a poor answer) is a score;
a failure of the provider or of ours is an `Episode` with an error and no reward. Whatever happens, the transcript so
far reaches `sink`.
"""

from __future__ import annotations

import datetime
import time
from collections.abc import Callable, Mapping
from typing import Any, Literal, NoReturn

import gymnasium as gym
from pydantic import BaseModel, ConfigDict, Field

from karotte_gym.agents.episode import Episode, EpisodeError, LimitHit
from karotte_gym.agents.replies import replies, tool_facts
from karotte_gym.agents.turn import Agent, Turn
from karotte_gym.errors import ConfigError, KarotteError
from karotte_gym.models.errors import ContextExceeded, ProviderError, Stopped
from karotte_gym.models.stopping import StopSignal
from karotte_gym.scoring import StudentMisbehavior

__all__ = ["MAX_EMPTY_TURNS", "RolloutLimits", "rollout"]

MAX_EMPTY_TURNS = 3
MAX_STEPS_OF_A_TASK = 1000
NUDGE_EMPTY = "Your last message was empty. Go on: call a tool, or submit when you are done."
SAID_NOTHING = (
    f"{MAX_EMPTY_TURNS} empty turns in a row (no text and no call), which ends an episode; "
    "raise the output limit or lower the reasoning effort"
)
NUDGE_CUT = "Your last message was cut off at the output limit. Go on where it ended, more briefly."
NUDGE_TEXT = "You wrote text without calling a tool. Call a tool to go on, or submit when you are done."
NOT_RUN = "Not run: the step of the task ended with an earlier call of the same message."


class RolloutLimits(BaseModel):
    """What ends an episode for the student's sake.

    Time counts the model's and the machine's, not what failed attempts and waiting for the provider cost. With
    ``at_limit="zero"`` the reward is 0; with ``"submit"`` what is there is handed in and graded.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    max_turns: int = Field(100, ge=1)
    max_time_s: float | None = Field(None, gt=0)
    max_context_tokens: int | None = Field(None, gt=0, description="default: the model's, where known")
    max_cost_usd: float | None = Field(None, gt=0, description="per episode; needs a model whose price is known")
    at_limit: Literal["zero", "submit"] = "zero"


class _Over(Exception):
    """The episode has its verdict. `answers`: the messages that answer the call which ended it."""

    def __init__(self, answers: list[dict[str, Any]]):
        super().__init__()
        self.answers = answers


class _Play:
    """One episode in progress. `episode` is valid data at any moment, so that it can be written whatever happens."""

    def __init__(
        self,
        env: gym.Env[Any, Any],
        agent: Agent,
        limits: RolloutLimits,
        stop: StopSignal,
        on_turn: Callable[[Episode], object],
    ):
        self.env, self.agent, self.limits, self.stop, self.on_turn = env, agent, limits, stop, on_turn
        self.episode = Episode(agent=repr(agent), started_at=datetime.datetime.now(datetime.UTC).isoformat())
        self.tools: list[dict[str, Any]] = []
        self.text_ends_step = True
        self.empty_turns = 0

    def reset(self, seed: int | None, options: dict[str, Any] | None) -> None:
        """Start the episode in the environment and tell the agent."""
        self._stop_if_told()
        _, info = self.env.reset(seed=seed, options=options)
        episode = self.episode
        episode.seed, episode.task_id, episode.run_id = seed, info.get("task_id", ""), info.get("run_id", "")
        episode.runtime, episode.contracts = info.get("runtime", ""), list(info.get("contracts", []))
        episode.messages = [dict(message) for message in info["messages"]]
        self.tools = info["tools"]
        self.text_ends_step = bool(info.get("text_ends_step", True))
        self.agent.reset(info)

    def play(self) -> None:
        """Turns until the episode is over; ends with `_Over` and nothing else but errors."""
        for _ in range(self.limits.max_turns):
            self._stop_if_told()
            turn = self._turn()
            self._answer(turn)
            self.on_turn(self.episode)
            self._check_limits(turn)
        self.end_at_limit("turns")

    def _turn(self) -> Turn:
        started = time.monotonic()
        try:
            turn = self.agent.act(self.episode.messages, self.tools)
        except ContextExceeded:
            if not self.episode.turns:  # not even the task's own instructions fit: nothing that the student did
                raise ConfigError("the instructions alone do not fit into the model's context") from None
            self.end_at_limit("context")
        kept = turn.stop != "empty" and bool(turn.text.strip() or turn.actions)
        self.episode.count(turn, time.monotonic() - started, len(self.episode.messages) if kept else None)
        if kept:
            self.episode.messages.append(turn.message)
        return turn

    def _answer(self, turn: Turn) -> None:
        self.empty_turns = self.empty_turns + 1 if turn.stop == "empty" else 0
        if self.empty_turns >= MAX_EMPTY_TURNS:
            # a model that is about to lose can always say nothing, so this is its limit and no missing verdict
            self.episode.error = EpisodeError(kind="empty_turns", message=SAID_NOTHING)
            self.end_at_limit("empty_turns")
        if turn.stop == "empty":
            self._say(NUDGE_EMPTY)
        elif turn.stop == "content_filter":
            self._submit(turn.text)
        elif turn.actions:
            self._run_all(turn.actions)
        elif turn.stop == "length":
            self._say(NUDGE_CUT)
        elif self.text_ends_step:
            self._submit(turn.text)
        else:
            self._say(NUDGE_TEXT)

    def _run_all(self, actions: list[dict[str, Any]]) -> None:
        """The calls of one message in order. Tool results come first, as chat APIs want it, then anything else."""
        later: list[dict[str, Any]] = []
        waiting = [action["id"] for action in actions]
        try:
            for action in actions:
                self._stop_if_told()
                answer, *others = self._step(action)
                waiting.pop(0)
                self.episode.messages.append(answer)
                later += others
                if action["function"]["name"] == "submit" and others:
                    break  # others: the instructions of the next step of the task, which later calls know nothing of
        except _Over as over:
            self.episode.messages += over.answers[:1]
            waiting.pop(0)
            later += over.answers[1:]
            raise
        finally:
            # every call keeps its answer, also when the episode ended or broke off with it
            self.episode.messages += [{"role": "tool", "tool_call_id": each, "content": NOT_RUN} for each in waiting]
            self.episode.messages += later

    def _submit(self, text: str) -> None:
        try:
            self.episode.messages += self._step({"name": "submit", "arguments": {"message": text}})
        except _Over as over:
            self.episode.messages += over.answers
            raise

    def _step(self, action: dict[str, Any]) -> list[dict[str, Any]]:
        """One call in the environment; the messages that answer it. When it ended the episode, `_Over` carries them."""
        started = time.monotonic()
        sent = {key: value for key, value in action.items() if key != "provider_specific_fields"}
        obs, reward, terminated, truncated, info = self.env.step(sent)
        self.episode.environment_s += time.monotonic() - started
        self.episode.rewards.append(float(reward))
        self.episode.tools.append(tool_facts(action, info))
        answers = replies(obs, info, action.get("id"))
        if terminated or truncated:
            self._close(info, truncated and not terminated, answers)
        return answers

    def _close(self, info: Mapping[str, Any], cut_by_wrapper: bool, answers: list[dict[str, Any]]) -> NoReturn:
        episode = self.episode
        misbehavior, record = info.get("misbehavior"), info.get("record")
        if misbehavior and self.stop.is_set():
            raise Stopped  # stopping ends machines too, and their end is no misbehaviour then
        episode.record, episode.score, episode.misbehavior = record, info.get("score"), misbehavior
        episode.misbehavior_kind = (record or {}).get("misbehavior_kind")
        episode.reward = float(sum(episode.rewards))
        episode.status = "misbehavior" if misbehavior else "limit" if cut_by_wrapper else "scored"
        episode.limit = "environment" if cut_by_wrapper else episode.limit
        raise _Over(answers)

    def _check_limits(self, turn: Turn) -> None:
        limits, episode = self.limits, self.episode
        spent_s = episode.agent_s + episode.environment_s - episode.lost_s
        if limits.max_time_s is not None and spent_s >= limits.max_time_s:
            self.end_at_limit("time")
        if limits.max_cost_usd is not None:
            if episode.tokens.cost_usd is None:
                raise ConfigError("the price of this model is not known, so a cost limit can't be held")
            if episode.tokens.cost_usd >= limits.max_cost_usd:
                self.end_at_limit("cost")
        context = limits.max_context_tokens or getattr(self.agent, "context_tokens", None)
        if context is not None and turn.usage.input_tokens + turn.usage.output_tokens >= context:
            self.end_at_limit("context")

    def end_at_limit(self, limit: LimitHit) -> NoReturn:
        """The student used up what it had: 0, or graded as it stands."""
        self.episode.limit = limit
        if self.limits.at_limit == "submit":
            for _ in range(MAX_STEPS_OF_A_TASK):  # every step that is left; the last one ends it
                self._submit(f"({limit} limit)")
            raise ConfigError(f"the environment did not end after {MAX_STEPS_OF_A_TASK} submissions")
        self.episode.reward, self.episode.status = 0.0, "limit"
        self.break_off(f"{limit} limit", limit)
        raise _Over([])

    def break_off(self, reason: str, limit: LimitHit | None = None) -> None:
        """Have the environment end the episode now and say why in its record; an environment that keeps none need not."""
        end = getattr(self.env.unwrapped, "break_off", None)
        info = None if end is None else end(reason, limit=limit)
        if info is not None:
            self.episode.record, self.episode.score = info.get("record"), info.get("score")

    def _say(self, text: str) -> None:
        self.episode.messages.append({"role": "user", "content": text})

    def _stop_if_told(self) -> None:
        if self.stop.is_set():
            raise Stopped


def rollout(
    env: gym.Env[Any, Any],
    agent: Agent,
    *,
    seed: int | None = None,
    options: dict[str, Any] | None = None,
    limits: RolloutLimits | None = None,
    stop: StopSignal | None = None,
    on_turn: Callable[[Episode], object] = lambda _: None,
    sink: Callable[[Episode], object] = lambda _: None,
) -> Episode:
    """Play one episode. The environment stays open and can be reset again.

    Errors of this package's family (a provider, a machine that can't be started) come back as an episode without a
    verdict; being stopped, too. Anything else is a mistake in code and raises, after `sink` got what there is.
    """
    play = _Play(env, agent, limits or RolloutLimits(), stop or StopSignal(), on_turn)
    started = time.monotonic()
    try:
        play.reset(seed, options)
        play.play()
    except _Over:
        pass
    except StudentMisbehavior as misbehavior:  # an environment without the wrapper that turns it into the end
        play.episode.status, play.episode.reward = "misbehavior", 0.0
        play.episode.misbehavior, play.episode.misbehavior_kind = misbehavior.sentence, str(misbehavior.kind)
    except KarotteError as error:
        _fail(play, error)
    except Stopped:
        _interrupt(play)
    except BaseException as error:
        told = play.stop.is_set() or isinstance(error, KeyboardInterrupt)
        _without_verdict(play.episode, "interrupted" if told else "error")
        play.episode.error = EpisodeError(kind=type(error).__name__, message=str(error))
        if not (play.stop.is_set() and isinstance(error, Exception)):  # stopping closes environments under a call
            raise
    finally:
        play.episode.duration_s = time.monotonic() - started
        sink(play.episode)
    return play.episode


def _fail(play: _Play, error: KarotteError) -> None:
    if play.stop.is_set():
        _interrupt(play)
        return
    kind, failures = type(error).__name__, []
    if isinstance(error, ProviderError):
        kind, failures = error.kind, error.failures
    play.break_off(f"{kind}: {error}")
    _without_verdict(play.episode, "error")
    play.episode.error = EpisodeError(kind=kind, message=str(error), failures=failures)


def _interrupt(play: _Play) -> None:
    play.break_off("interrupted: the run was stopped")
    _without_verdict(play.episode, "interrupted")


def _without_verdict(episode: Episode, status: Literal["error", "interrupted"]) -> None:
    episode.status, episode.reward, episode.score = status, None, None
