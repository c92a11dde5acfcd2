"""`KarotteEnv`: one machine, one student, one episode at a time, behind Gymnasium's interface.

The bare environment runs the student's calls and takes its submissions into custody. It never pays a reward: `gym.make`
stacks `CustodyGrading`, which grades what custody took, and `MisbehaviorToZero`, which turns `StudentMisbehavior` into
reward 0. Without that wrapper `step` raises it, after the machine is gone. Whatever ends an episode, `reset` starts the
next one in a fresh machine.
"""

from __future__ import annotations

import contextlib
import os
import weakref
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, Literal, NoReturn

import gymnasium as gym
from gymnasium import spaces

from karotte_gym.episode import Episode
from karotte_gym.errors import CallRefused, ConfigError, MachineDied, MachineError
from karotte_gym.messages import call_messages, echo, malformed_messages, opening_messages, user_message
from karotte_gym.registration import load_task
from karotte_gym.sandbox import machines
from karotte_gym.scoring import MisbehaviorKind, StudentMisbehavior
from karotte_gym.spaces import MAX_OBSERVATION_CHARS, TextSpace, ToolCallSpace
from karotte_gym.tool_results import ToolResult, error_result, run_call, step_info
from karotte_gym.tools import openai_schemas
from karotte_gym.tools.call import ToolCall, parse_action
from karotte_gym.transcript import make_directory

__all__ = ["KarotteEnv"]

RUNTIMES = ("auto", "qemu")
SUBMIT = "submit"
SUBMITTED = "Submitted."
ENDED = "The episode ended: {}"
AFTER_END = "The episode is over; reset the environment to begin another."
_KIND_OF_DEATH = {
    "exited": MisbehaviorKind.MACHINE_ENDED,
    "silent": MisbehaviorKind.MACHINE_SILENT,
    "protocol": MisbehaviorKind.MACHINE_PROTOCOL,
}

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
        if not isinstance(generated, bool):
            raise ConfigError(f"generated must be True or False, not {generated!r}")
        self.task_class = load_task(task)
        self.render_mode = render_mode
        self._config = {**_mapping(task_config), **({"generated": True} if generated else {})}
        self.task_class(self._config)  # a wrong configuration is refused here and not at the first reset
        self.run_dir = _checked_run_dir(run_dir)
        self._machine = self.task_class.student_machine(test_hooks=test_hooks, use_cgroups=use_cgroups)
        self.tool_names = (*self.task_class.tools, SUBMIT)
        self.action_space = ToolCallSpace(self.tool_names)
        self.observation_space = spaces.Dict({"content": TextSpace(MAX_OBSERVATION_CHARS)})  # type: ignore[assignment]
        self._held = contextlib.ExitStack()  # the episode's resources; shared with the finalizer, which can't hold self
        self._finalizer = weakref.finalize(self, self._held.close)
        self.episode: Episode | None = None

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Observation, dict[str, Any]]:
        """Start an episode in a fresh machine. ``options={"task_config": {...}}`` is laid over the configuration.

        Without a seed one is drawn from the last, so that the seed in any record repeats that episode's data.
        """
        if seed is None:
            seed = int(self.np_random.integers(2**32))
        super().reset(seed=seed)
        self._end_last_episode()
        episode = self._new_episode(seed, options or {})
        self.episode = episode
        self._held.callback(episode.close)
        try:
            self._start(episode)
        except BaseException:
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
        call = parse_action(action, self.tool_names)
        if isinstance(call, str):
            result = error_result(call)
            return self._answer(episode, echo(action), result, malformed_messages(action, result.text))
        try:
            if call.name == SUBMIT:
                return self._submit(episode, call)
            assert episode.sandbox is not None
            result = run_call(episode.sandbox, call, self.task_class.limits)
        except (StudentMisbehavior, MachineDied, CallRefused) as error:
            self._blame(episode, call, error)
        return self._answer(episode, call, result, self._messages(episode, call, result.text))

    def conclude(self, misbehavior: StudentMisbehavior) -> tuple[Observation, dict[str, Any]]:
        """For the wrapper that scores misbehaviour: the last observation and info of the episode that it ended."""
        episode = self.episode
        if episode is None:
            raise gym.error.ResetNeeded("there is no episode to conclude")
        episode.misbehavior = misbehavior
        episode.end()
        text = ENDED.format(misbehavior.sentence)
        return {"content": text}, step_info(episode.messages[-2:], error_result(text)) | episode.closing_info()

    def render(self) -> str | None:
        """The episode as text so far ("ansi"); "human" prints as it happens, so there is nothing left to show."""
        if self.render_mode == "ansi":
            return "" if self.episode is None else self.episode.transcript.as_text()
        return None

    def close(self) -> None:
        """End the machine and give everything back; idempotent, also after a crash."""
        self._end_last_episode()

    def _new_episode(self, seed: int, options: Mapping[str, Any]) -> Episode:
        unknown = sorted(set(options) - {"task_config"})
        if unknown:
            raise ConfigError(f'unknown reset options {unknown}; there is: "task_config"')
        task = self.task_class({**self._config, **_mapping(options.get("task_config"))})
        return Episode(task, seed=seed, run_dir=self.run_dir)

    def _start(self, episode: Episode) -> None:
        episode.adopt(machines.start(self._machine))
        assert episode.sandbox is not None
        episode.contracts = episode.sandbox.start_session(self.task_class.limits)
        episode.task.pre_hook(episode.sandbox, self.np_random)
        episode.transcript.instructions.append(episode.step.instructions)
        episode.messages = opening_messages(episode.task.system_prompt, episode.step.instructions)
        self._print(episode.step.instructions)

    def _submit(self, episode: Episode, call: ToolCall) -> Transition:
        episode.claimed = str(call.arguments.get("message") or "")
        episode.take_submission(self.task_class.submission_limits)
        messages = self._messages(episode, call, SUBMITTED)
        if len(episode.submissions) == len(episode.task.steps):
            episode.end()
            obs, reward, _, truncated, info = self._answer(episode, call, ToolResult(SUBMITTED), messages)
            return obs, reward, True, truncated, info | episode.closing_info()
        assert episode.sandbox is not None
        episode.contracts = episode.sandbox.start_session(self.task_class.limits)
        text = episode.step.instructions
        episode.transcript.instructions.append(text)
        return self._answer(episode, call, ToolResult(text), [*messages, user_message(text)])

    def _answer(self, episode: Episode, call: ToolCall | str, result: ToolResult, messages: list[dict[str, Any]]) -> Transition:
        event = episode.note(call, result, messages)
        self._print(f"> {event.tool or '(no call)'} {event.arguments}\n{event.result}")
        return {"content": result.text}, 0.0, False, False, step_info(messages, result)

    def _after_end(self, episode: Episode) -> Transition:
        """A call after the end changes nothing and pays nothing: a student may well go on talking."""
        info = step_info([user_message(AFTER_END)], error_result(AFTER_END)) | episode.closing_info()
        return {"content": AFTER_END}, 0.0, True, False, info

    def _blame(self, episode: Episode, call: ToolCall, error: StudentMisbehavior | MachineDied | CallRefused) -> NoReturn:
        """The machine is the student's from its session on, so its death is the student's doing.

        So is an agent that fails at custody: a student that found out how would have its losing episodes dropped. What
        only we can get wrong, a call that is none, raises.
        """
        episode.end()
        if isinstance(error, StudentMisbehavior):
            misbehavior = error
        elif isinstance(error, CallRefused):
            if error.kind in ("bad-params", "unknown-method"):
                raise MachineError(f"the agent refused a call of ours ({error.kind}): {error}") from error
            misbehavior = StudentMisbehavior(MisbehaviorKind.AGENT_FAILED, f"the machine's agent failed at custody: {error}")
        else:
            kind = _KIND_OF_DEATH.get(error.cause, MisbehaviorKind.MACHINE_ENDED)
            misbehavior = StudentMisbehavior(kind, f"the machine ended: {error}")
        episode.misbehavior = misbehavior
        text = ENDED.format(misbehavior.sentence)
        episode.note(call, error_result(text), self._messages(episode, call, text))
        raise misbehavior from error

    def _end_last_episode(self) -> None:
        """Give the last episode back; an unfinished one still leaves its record when one was asked for."""
        episode, self.episode = self.episode, None
        if episode is not None and not episode.over:
            episode.notes.append("the episode was given up before its end")
            episode.end()
            if episode.directory is not None:
                episode.closing_info()
        self._held.close()

    def _messages(self, episode: Episode, call: ToolCall, result: str) -> list[dict[str, Any]]:
        return call_messages(call.id or f"call_{episode.calls}", call.name, call.arguments, result)

    def _opening_info(self, episode: Episode) -> dict[str, Any]:
        return {
            "messages": opening_messages(episode.task.system_prompt, episode.step.instructions),
            "tools": openai_schemas(self.tool_names),
            "task_id": episode.task.id,
            "run_id": episode.run_id,
            "runtime": episode.runtime,
            "contracts": [asdict(contract) for contract in episode.contracts],
        }

    def _print(self, text: str) -> None:
        if self.render_mode == "human":
            print(text, flush=True)


def _mapping(task_config: object) -> Mapping[str, Any]:
    if task_config is None:
        return {}
    if not isinstance(task_config, Mapping):
        raise ConfigError(f'task_config must be a mapping such as {{"generated": True}}, not {task_config!r}')
    return task_config


def _checked_run_dir(run_dir: object) -> str | None:
    """Made here: only making it proves that it can be made, and the first reset is too late to hear of a typo."""
    if run_dir is None or run_dir == "":
        return None
    if not isinstance(run_dir, (str, os.PathLike)):
        raise ConfigError(f'run_dir must be a path as text such as "runs", not {run_dir!r}')
    make_directory(Path(run_dir))
    return os.fspath(run_dir)
