"""`CustodyGrading`: scores each step's submission in a second machine and pays at the end of the episode.

The grader machine is restored in the background while the student works, so that grading waits for nothing. It never
meets the student: it gets a copy of the submission after custody, when the student's machine is gone or holds still.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import gymnasium as gym
from gymnasium.utils import RecordConstructorArgs

from karotte_gym.env import KarotteEnv
from karotte_gym.episode import Episode
from karotte_gym.errors import GradingError, MachineDied, MachineError
from karotte_gym.judges.base import Evidence
from karotte_gym.sandbox import machines
from karotte_gym.sandbox.contract import MachineSpec, Sandbox
from karotte_gym.scoring import StudentMisbehavior

__all__ = ["CustodyGrading"]


class CustodyGrading(gym.Wrapper[Any, Any, Any, Any], RecordConstructorArgs):
    """Grades at the end of each step of the task; pays the last scored step's score when the episode ends."""

    def __init__(self, env: gym.Env[Any, Any]):
        RecordConstructorArgs.__init__(self)
        gym.Wrapper.__init__(self, env)
        self._prefetch: machines.Prefetch | None = None
        self._prefetched_for = -1  # number of submissions before the one that the machine is for
        self._spec: MachineSpec | None = None

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """As the environment's; a grader machine that waits for the last episode is given back."""
        self._give_back()
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
        if before.awaits_grading:
            self._grade(before)
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

    def _begin_prefetch(self, episode: Episode) -> None:
        if self._prefetched_for == len(episode.submissions):
            return
        self._give_back()
        self._spec = episode.step.judge.machine(episode.task.grader_needs())
        self._prefetch = None if self._spec is None else machines.prefetch(self._spec)
        self._prefetched_for = len(episode.submissions)

    def _grade(self, episode: Episode) -> None:
        """Add the scoring of the last submission. A fault ends the episode, for it can't be scored any more."""
        evidence = Evidence(
            submission=episode.submissions[-1],
            grader_machine=self._grader_machine,
            grading_data=dict(episode.task.grading_data()),
            messages=tuple(episode.messages),
        )
        try:
            episode.scorings.append(episode.task.steps[len(episode.submissions) - 1].judge.judge(evidence))
        except BaseException:
            self._give_back()
            episode.end()
            raise

    @contextmanager
    def _grader_machine(self) -> Iterator[Sandbox]:
        """The prefetched machine, or another one when that is used up."""
        if self._spec is None:
            raise GradingError("the judge asked for a grader machine that it had not said it needs")
        prefetch, self._prefetch = self._prefetch, None
        try:
            sandbox = machines.start(self._spec) if prefetch is None else prefetch.take()
        except (MachineError, MachineDied) as error:
            raise GradingError(f"no grader machine could be started: {error}") from error
        try:
            yield sandbox
        finally:
            sandbox.close()

    def _give_back(self) -> None:
        prefetch, self._prefetch = self._prefetch, None
        self._prefetched_for = -1
        if prefetch is not None:
            prefetch.cancel()
