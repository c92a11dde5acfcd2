"""`KarotteEnv`: one machine, one student, one episode at a time, behind Gymnasium's interface.

The bare environment runs the student's calls and takes its submissions into custody. It never pays a reward: `gym.make`
stacks `CustodyGrading`, which grades what custody took, and `MisbehaviorToZero`, which turns `StudentMisbehavior` into
reward 0. Without that wrapper `step` raises it, after the machine is gone. Whatever ends an episode, `reset` starts the
next one in a fresh machine.
"""

from __future__ import annotations

import contextlib
import time
import weakref
from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from typing import Any, Literal, NoReturn

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from karotte_gym.blame import misbehavior_of
from karotte_gym.bounded_text import bounded
from karotte_gym.end_of_step import Grader, end_step, start_session
from karotte_gym.env_arguments import checked_run_dir, config_of_options, mapping, must_be_bools
from karotte_gym.episode import Episode
from karotte_gym.errors import CallRefused, ConfigError, MachineDied
from karotte_gym.messages import call_messages, echo, image_messages, malformed_messages, opening_messages, user_message
from karotte_gym.registration import load_task
from karotte_gym.sandbox import machines
from karotte_gym.sandbox.contract import Sandbox, Submission
from karotte_gym.scoring import StudentMisbehavior
from karotte_gym.spaces import MAX_OBSERVATION_CHARS, TextSpace, ToolCallSpace
from karotte_gym.tool_results import ToolResult, error_result, step_info, text_result
from karotte_gym.tools.call import ToolCall
from karotte_gym.tools.context import ToolContext
from karotte_gym.tools.definition import CallSite
from karotte_gym.tools.toolset import SUBMIT, Toolset

__all__ = ["KarotteEnv"]

RUNTIMES = ("auto", "qemu")
SUBMITTED = "Submitted."
ENDED = "The episode ended: {}"
_TOOLS_STREAM = 1  # beside the seed: the tools' random numbers are not those of `pre_hook`
TOO_LATE = "error: the time of this step is up, and the call was not run"
AFTER_END = "The episode is over; reset the environment to begin another."
Observation = dict[str, str]
Transition = tuple[Observation, float, bool, bool, dict[str, Any]]


class KarotteEnv(gym.Env[Observation, dict[str, Any]]):
    """An environment whose `reset` puts a student in front of a machine and whose `step` runs one of its tool calls.

    `task` is a reference as in `karotte_gym.registration`. `task_config` is what the task's own `Config` takes;
    ``generated=True`` is short for ``task_config={"generated": True}``. `run_dir`: where each episode writes a
    directory of its own with transcript, record and submission; None writes nothing. All arguments are JSON.
    """

    metadata = {"render_modes": ["ansi", "human"], "render_fps": 1}  # noqa: RUF012 - Gymnasium's own attribute

    def __init__(
        self,
        task: str,
        *,
        generated: bool = False,
        runtime: Literal["auto", "qemu"] = "auto",
        task_config: Mapping[str, Any] | None = None,
        render_mode: str | None = None,
        run_dir: str | None = None,
        use_cgroups: bool = True,
        test_hooks: bool = False,
    ):
        if runtime not in RUNTIMES:
            raise ConfigError(f"unknown runtime {runtime!r}; there are: {', '.join(RUNTIMES)}")
        if render_mode is not None and render_mode not in self.metadata["render_modes"]:
            raise ConfigError(f"unknown render_mode {render_mode!r}; there are: {self.metadata['render_modes']}")
        must_be_bools(generated=generated, use_cgroups=use_cgroups, test_hooks=test_hooks)
        self.task_class = load_task(task)
        self.render_mode = render_mode
        self._config = {**mapping(task_config), **({"generated": True} if generated else {})}
        sample = self.task_class(self._config)  # a wrong configuration is refused here and not at the first reset
        self.toolset = Toolset.of_task(self.task_class)
        self.toolset.configure(sample.configure_tools())
        self.run_dir = checked_run_dir(run_dir)
        self._machine = self.task_class.student_machine(test_hooks=test_hooks, use_cgroups=use_cgroups)
        self.tool_names = self.toolset.names
        self.action_space = ToolCallSpace(self.tool_names)
        self.observation_space = spaces.Dict({"content": TextSpace(MAX_OBSERVATION_CHARS)})  # type: ignore[assignment]
        self._held = contextlib.ExitStack()  # the episode's resources; shared with the finalizer, which can't hold self
        self._finalizer = weakref.finalize(self, self._held.close)
        self.episode: Episode | None = None
        self.grader: weakref.WeakMethod[Grader] | None = None  # who scores a submission; a wrapper sets it
        self._tools_rng = np.random.default_rng(0)
        self.last_result: ToolResult | None = None  # what the last call came to, with what `info` leaves out

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Observation, dict[str, Any]]:
        """Start an episode in a fresh machine. ``options={"task_config": {...}}`` is laid over the configuration.

        Without a seed one is drawn from the last, so that the seed in any record repeats that episode's data.
        """
        if isinstance(seed, bool):
            raise ConfigError(f"the seed must be a whole number or None, not {seed}")
        if seed is None:
            seed = int(self.np_random.integers(2**32))
        super().reset(seed=seed)
        self._end_last_episode()
        episode = self._new_episode(seed, options)
        self.episode = episode
        self._held.callback(episode.close)
        try:
            self._start(episode)
        except BaseException as error:
            try:
                episode.fail(error)
            finally:
                self._end_last_episode()
            raise
        return {"content": episode.step.instructions}, self._opening_info(episode)

    def step(self, action: Any) -> Transition:
        """Run one call, whatever `action` is; what is no call is answered with an error text.

        Raises StudentMisbehavior for what the student caused; the episode is over then. Other errors are not its doing.
        """
        episode = self.episode
        if episode is None:
            raise gym.error.ResetNeeded("call reset() before step()")
        if episode.over:
            return self._after_end(episode)
        episode.begin_call()
        with episode.faults_recorded():
            return self._take(episode, action)

    def break_off(self, reason: str, *, limit: str | None = None) -> dict[str, Any] | None:
        """End the episode from outside, as a model's loop does at its own `limit` (score 0) or for an error (no score).

        Returns the closing `info`, with the record that says why. One that has ended keeps its own reason; None when
        there is none.
        """
        episode = self.episode
        if episode is None:
            return None
        return episode.closing_info() if episode.over else episode.break_off(reason, limit=limit)

    def _take(self, episode: Episode, action: Any) -> Transition:
        call = self.toolset.parse(action)
        if isinstance(call, str):
            result = error_result(call)
            return self._go_on(episode, echo(action), result, lambda text: malformed_messages(action, text))
        try:
            if episode.budget.time_is_up:
                return self._go_on(episode, call, error_result(TOO_LATE), lambda text: self._messages(episode, call, text))
            if call.name == SUBMIT:
                return self._submit(episode, call)
            result = episode.pictures.admit(self.toolset.run(call, self._call_site(episode)))
        except (StudentMisbehavior, MachineDied, CallRefused) as error:
            self._blame(episode, call, error)
        return self._go_on(episode, call, result, lambda text: self._messages(episode, call, text))

    def conclude(self, misbehavior: StudentMisbehavior) -> tuple[Observation, dict[str, Any]]:
        """For the wrapper that scores misbehaviour: the last observation and info of the episode that it ended."""
        episode = self.episode
        if episode is None:
            raise gym.error.ResetNeeded("there is no episode to conclude")
        episode.misbehavior = misbehavior
        episode.end()
        text = ENDED.format(misbehavior.sentence)
        self.last_result = error_result(text)
        return {"content": text}, step_info(episode.messages[-2:], self.last_result) | episode.closing_info()

    def render(self) -> str | None:
        """The episode as text so far ("ansi"); "human" prints as it happens, so there is nothing left to show."""
        if self.render_mode == "ansi":
            return "" if self.episode is None else self.episode.transcript.as_text()
        return None

    def close(self) -> None:
        """End the machine and give everything back; idempotent, also after a crash."""
        self._end_last_episode()

    def _new_episode(self, seed: int, options: object) -> Episode:
        task = self.task_class({**self._config, **config_of_options(options)})
        return Episode(task, seed=seed, run_dir=self.run_dir)

    def _start(self, episode: Episode) -> None:
        episode.adopt(machines.start(self._machine))
        assert episode.sandbox is not None
        self._start_kept_services(episode.sandbox)
        start_session(episode)
        episode.task.pre_hook(episode.sandbox, self.np_random)
        self.toolset.begin_episode(episode.task.configure_tools())  # now, for it may depend on what the hook drew
        self._tools_rng = np.random.default_rng([episode.seed, _TOOLS_STREAM])
        episode.messages = opening_messages(episode.task.system_prompt, episode.step.instructions)
        self._begin_step(episode, episode.step.instructions)
        self._print(episode.step.instructions)

    def _start_kept_services(self, sandbox: Sandbox) -> None:
        for service in self.task_class.services:
            if service.keep and not (status := sandbox.start_service(service, Submission())).ready:
                how = status.note or f"exit code {status.exit_code}"
                raise ConfigError(f"task {self.task_class.id}: the service {service.name} did not start ({how})")

    def _submit(self, episode: Episode, call: ToolCall) -> Transition:
        episode.claimed = str(call.arguments.get("message") or "")
        messages = self._messages(episode, call, SUBMITTED)
        started = time.monotonic()
        text = end_step(episode, messages, self._grader())
        result = text_result(SUBMITTED if text is None else text, time.monotonic() - started)
        if text is None:
            obs, reward, _, truncated, info = self._answer(episode, call, result, messages)
            return obs, reward, True, truncated, info | episode.closing_info()
        transition = self._answer(episode, call, result, [*messages, user_message(text)])
        self._begin_step(episode, text)
        return transition

    def _go_on(
        self,
        episode: Episode,
        call: ToolCall | str,
        result: ToolResult,
        messages_of: Callable[[str], list[dict[str, Any]]],
    ) -> Transition:
        """Answer a call that did not end the step, and end the step when the call was the last that its limits allow."""
        note = "" if episode.budget.spent else episode.budget.note()
        if note:
            result = replace(result, text=bounded(f"{result.text.rstrip()}\n{note}".lstrip(), MAX_OBSERVATION_CHARS))
        messages = [*messages_of(result.text), *image_messages(result.images)]
        transition = self._answer(episode, call, result, messages)
        limit = episode.budget.spent
        return transition if limit is None else self._at_limit(episode, transition, limit)

    def _at_limit(self, episode: Episode, transition: Transition, limit: str) -> Transition:
        """The step has used up what it had. An episode that ends by it is truncated, graded or not."""
        obs, reward, _, _, info = transition
        if episode.step.limits.at_limit == "error":
            said = f"The episode ended: the step's limit of {limit} is reached."
            info |= {"messages": [*info["messages"], user_message(said)], "step_limit": limit}
            closing = episode.break_off(said, limit=limit)
            return {"content": _joined(obs["content"], said)}, reward, False, True, info | closing
        said = f"The step's limit of {limit} is reached: what is there was handed in."
        episode.notes.append(f"step {len(episode.submissions) + 1} ended at its limit of {limit} and was graded as it stood")
        try:
            text = end_step(episode, [user_message(said)], self._grader())
        except (StudentMisbehavior, MachineDied, CallRefused) as error:
            self._blame(episode, None, error)
        told = [user_message(said if text is None else f"{said}\n\n{text}")]
        episode.messages += told
        info |= {"messages": [*info["messages"], *told], "step_limit": limit}
        obs = {"content": _joined(obs["content"], told[0]["content"])}
        if text is None:
            return obs, reward, False, True, info | episode.closing_info()
        self._begin_step(episode, text)
        return obs, reward, False, False, info

    def _begin_step(self, episode: Episode, text: str) -> None:
        episode.instruct(text)
        episode.begin_step()

    def _grader(self) -> Grader | None:
        return None if self.grader is None else self.grader()

    def _answer(self, episode: Episode, call: ToolCall | str, result: ToolResult, messages: list[dict[str, Any]]) -> Transition:
        self.last_result = result
        event = episode.note(call, result, messages)
        self._print(f"> {event.tool or '(no call)'} {event.arguments}\n{event.result}")
        return {"content": result.text}, 0.0, False, False, step_info(messages, result)

    def _after_end(self, episode: Episode) -> Transition:
        """A call after the end changes nothing and pays nothing: a student may well go on talking."""
        self.last_result = error_result(AFTER_END)
        info = step_info([user_message(AFTER_END)], self.last_result) | episode.closing_info()
        return {"content": AFTER_END}, 0.0, True, False, info

    def _blame(
        self, episode: Episode, call: ToolCall | None, error: StudentMisbehavior | MachineDied | CallRefused
    ) -> NoReturn:
        """End the episode for what its machine did; a machine that `break_off` ended in another thread is nobody's fault."""
        if episode.error is not None or episode.limit is not None:
            raise error
        episode.end()
        misbehavior = misbehavior_of(error)
        episode.misbehavior = misbehavior
        text = ENDED.format(misbehavior.sentence)
        if call is None:  # the call was answered before; the step ended at a limit
            episode.messages.append(user_message(text))
        else:
            episode.note(call, error_result(text), self._messages(episode, call, text))
        raise misbehavior from error

    def _end_last_episode(self) -> None:
        """Give the last episode back; an unfinished one still leaves its record when one was asked for."""
        episode, self.episode = self.episode, None
        try:
            if episode is not None and not episode.over:
                episode.notes.append("the episode was given up before its end")
                episode.end()
            if episode is not None and episode.directory is not None:
                episode.closing_info()  # also for misbehaviour that no wrapper concluded
        finally:
            self._held.close()

    def _call_site(self, episode: Episode) -> CallSite:
        assert episode.sandbox is not None
        task = episode.task
        context = ToolContext(task.config, task.store.for_tools(), self._tools_rng, len(episode.submissions) + 1, episode.seed)
        return CallSite(episode.sandbox, episode.budget.cut(self.task_class.limits), context)

    def _messages(self, episode: Episode, call: ToolCall, result: str) -> list[dict[str, Any]]:
        return call_messages(call.id or f"call_{episode.calls}", call.name, call.arguments, result)

    def _opening_info(self, episode: Episode) -> dict[str, Any]:
        return {
            "messages": opening_messages(episode.task.system_prompt, episode.step.instructions),
            "tools": self.toolset.openai_schemas(),
            "task_id": episode.task.id,
            "run_id": episode.run_id,
            "runtime": episode.runtime,
            "contracts": [asdict(contract) for contract in episode.contracts],
        }

    def _print(self, text: str) -> None:
        if self.render_mode == "human":
            print(text, flush=True)


def _joined(result: str, said: str) -> str:
    return bounded(f"{result.rstrip()}\n\n{said}".lstrip(), MAX_OBSERVATION_CHARS)
