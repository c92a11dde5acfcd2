"""`CustodyGrading`: scores each step's submission and pays at the end of the episode.

The environment calls `grade` between custody and whatever follows: the next step, or the end. Usually a second machine
judges. It is restored in the background while the student works, so that grading waits for nothing, and never meets the
student: it gets a copy of the submission when the student's machine is gone or holds still. A task with
``grade_in="student"`` is judged in the student's own machine, which the student has lost by then (`live_grading`).
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import gymnasium as gym
from gymnasium.utils import RecordConstructorArgs

from karotte_gym.env import KarotteEnv
from karotte_gym.episode import Episode
from karotte_gym.errors import CallRefused, GradingError, MachineDied, MachineError
from karotte_gym.judges.base import Evidence, Judge
from karotte_gym.sandbox import machines
from karotte_gym.sandbox.contract import MachineSpec, Sandbox, ServiceStatus
from karotte_gym.sandbox.live_grading import live_machine
from karotte_gym.scoring import Scoring, StudentMisbehavior

__all__ = ["CustodyGrading"]


class CustodyGrading(gym.Wrapper[Any, Any, Any, Any], RecordConstructorArgs):
    """Grades at the end of each step of the task; pays the last scored step's score when the episode ends."""

    def __init__(self, env: gym.Env[Any, Any]):
        RecordConstructorArgs.__init__(self)
        gym.Wrapper.__init__(self, env)
        self._prefetch: machines.Prefetch | None = None
        self._prefetched_for = -1  # number of submissions before the one that the machine is for
        self._spec: MachineSpec | None = None
        self.evidence: list[Evidence] = []  # put before the judges in this episode, one for each step that was scored
        core = env.unwrapped
        if isinstance(core, KarotteEnv):  # weakly: an environment that nobody holds any more must be collected at once
            core.grader = weakref.WeakMethod(self.grade)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """As the environment's; a grader machine that waits for the last episode is given back."""
        self._give_back()
        self.evidence = []
        return self.env.reset(seed=seed, options=options)

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """As the environment's, and the score as the reward when the episode ends. GradingError when it has none."""
        before = self._episode
        if before is None or before.over:
            obs, _, terminated, truncated, info = self.env.step(action)  # it answers or refuses
            return obs, 0.0, terminated, truncated, info
        self._begin_prefetch(before)
        try:
            obs, _, terminated, truncated, info = self.env.step(action)
        except StudentMisbehavior:
            self._give_back()
            raise
        if not (terminated or truncated):
            return obs, 0.0, terminated, truncated, info
        self._give_back()
        before.end()
        if before.score is None:
            before.notes.append("the episode ended before anything was handed in")
        info.update(before.closing_info())
        info["score"] = float(before.score or 0.0)
        return obs, info["score"], terminated, truncated, info

    def close(self) -> None:
        """Give all machines back; idempotent."""
        self._give_back()
        super().close()

    @property
    def _episode(self) -> Episode | None:
        env = self.unwrapped
        if not isinstance(env, KarotteEnv):
            raise TypeError(f"CustodyGrading wraps a KarotteEnv, not {env!r}")
        return env.episode

    def grade(self, episode: Episode, messages: tuple[dict[str, Any], ...]) -> Scoring:
        """Add the scoring of the last submission. Called by the environment; `messages` is the chat of the step.

        A fault ends the episode, for it can't be scored any more. MachineDied and CallRefused come out of a live
        machine only, which was the student's.
        """
        judge = episode.task.steps[len(episode.submissions) - 1].judge
        try:
            data = dict(episode.task.grading_data())
            episode.keep_grading_data(data)
            evidence = Evidence(
                submission=episode.submissions[-1],
                grader_machine=lambda: self._machine_for(episode, judge),
                grading_data=data,
                messages=messages,
                store=episode.task.store,
                seed=episode.seed,
                root_data=episode.task.grader_needs().root_data,
                machine_for=lambda part: self._machine_for(episode, part),
            )
            self.evidence.append(evidence)
            scoring = judge.judge(evidence)
        except (StudentMisbehavior, MachineDied, CallRefused) as error:
            self._give_back()
            if episode.task.grade_in == "student":
                raise
            raise GradingError(f"the judge {type(judge).__name__} failed: {error}") from error
        except BaseException as error:
            self._give_back()
            episode.fail(error)
            raise
        episode.scorings.append(scoring)
        return scoring

    def _begin_prefetch(self, episode: Episode) -> None:
        if self._prefetched_for == len(episode.submissions):
            return
        self._give_back()
        self._prefetched_for = len(episode.submissions)
        if episode.task.grade_in == "grader":
            self._spec = episode.step.judge.machine(episode.task.grader_needs())
            self._prefetch = None if self._spec is None else machines.prefetch(self._spec)

    def _machine_for(self, episode: Episode, judge: Judge) -> AbstractContextManager[Sandbox]:
        spec = judge.machine(episode.task.grader_needs())
        if episode.task.grade_in == "student":
            return self._live_machine(episode, spec)
        if spec is None:
            raise GradingError("the judge asked for a grader machine that it had not said it needs")
        return self._fresh_machine(spec)

    @contextmanager
    def _fresh_machine(self, spec: MachineSpec) -> Iterator[Sandbox]:
        """The prefetched machine, or another one when that is used up or of another kind."""
        prefetch = None
        if spec == self._spec:
            prefetch, self._prefetch = self._prefetch, None
        try:
            sandbox = machines.start(spec) if prefetch is None else prefetch.take()
        except (MachineError, MachineDied) as error:
            raise GradingError(f"no grader machine could be started: {error}") from error
        try:
            yield sandbox
        finally:
            sandbox.close()

    @contextmanager
    def _live_machine(self, episode: Episode, spec: MachineSpec | None) -> Iterator[Sandbox]:
        """The student's machine; what its services did when they were started goes into the record."""
        task, sandbox = episode.task, episode.sandbox
        if sandbox is None:
            raise MachineDied("the live machine is gone", cause="exited")
        memory_mib, submission = task.hardware.memory_mib, episode.submissions[-1]
        with live_machine(sandbox, spec, memory_mib, task.services, submission) as (machine, started):
            episode.notes += [_not_ready(name, status) for name, status in started.items() if not status.ready]
            yield machine

    def _give_back(self) -> None:
        prefetch, self._prefetch = self._prefetch, None
        self._prefetched_for = -1
        if prefetch is not None:
            prefetch.cancel()


def _not_ready(name: str, status: ServiceStatus) -> str:
    how = "was not ready in time" if status.running else f"ended with exit code {status.exit_code}"
    return f"the service {name} {how}, and was graded as it was"
