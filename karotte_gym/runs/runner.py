"""`Runner`: plays the episodes of a run that have no verdict yet, N at a time, and writes each down as it ends.

Threads, since an episode waits nearly all of its time: for its machine or for the model. Each worker keeps its
environment, so that a machine's way to its first episode is paid once.
"""

from __future__ import annotations

import threading
import time
import traceback
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Protocol

import gymnasium as gym

from karotte_gym.agents.episode import Episode
from karotte_gym.agents.rollout import RolloutLimits, rollout
from karotte_gym.agents.turn import Agent
from karotte_gym.errors import KarotteError
from karotte_gym.models.stopping import StopSignal

__all__ = ["Display", "RunResult", "Runner"]

GRACE_S = 5.0  # for episodes to end by themselves once stopped; then their machines are closed under them
_JOIN_S = 0.1  # how often the main thread looks up, which is when Python runs signal handlers


class Display(Protocol):
    """Told what happens; called from any worker, one call at a time."""

    def started(self, index: int) -> None:
        """An episode begins."""

    def turn(self, index: int, episode: Episode) -> None:
        """A turn was played."""

    def ended(self, index: int, episode: Episode) -> None:
        """An episode ended, whatever way, and is on disk."""


@dataclass
class RunResult:
    """`given_up`: why no further episode was begun. `crashes`: tracebacks of mistakes in code, for people."""

    given_up: str = ""
    crashes: list[str] = field(default_factory=list)


class Runner:
    """`make_env` and `make_agent` are called in worker threads, once per worker and once per episode."""

    def __init__(
        self,
        make_env: Callable[[], gym.Env[Any, Any]],
        make_agent: Callable[[], Agent],
        save: Callable[[int, Episode], object],
        display: Display,
        *,
        seed: int,
        limits: RolloutLimits,
        stop: StopSignal,
        redact: Callable[[str], str],
        max_errors_in_a_row: int = 10,
        max_total_cost_usd: float | None = None,
    ):
        self._make_env, self._make_agent, self._save, self._display = make_env, make_agent, save, display
        self._seed, self._limits, self._stop, self._redact = seed, limits, stop, redact
        self._max_errors, self._max_cost_usd = max_errors_in_a_row, max_total_cost_usd
        self._lock = threading.RLock()
        self._envs: list[gym.Env[Any, Any]] = []
        self._todo: list[int] = []
        self._errors_in_a_row = 0
        self._cost_usd = 0.0
        self.result = RunResult()

    def run(self, indices: Iterable[int], parallel: int) -> RunResult:
        """Play them. Returns when all have ended, or within seconds of being stopped."""
        self._todo = sorted(indices, reverse=True)
        workers = [
            threading.Thread(target=self._work, name=f"karotte-episodes-{number}", daemon=True)
            for number in range(min(parallel, len(self._todo)))
        ]
        for worker in workers:
            worker.start()
        self._wait(workers)
        return self.result

    def _wait(self, workers: list[threading.Thread]) -> None:
        stopped_at: float | None = None
        closed = False
        while any(worker.is_alive() for worker in workers):
            for worker in workers:
                worker.join(_JOIN_S / len(workers))
            if self._stop.is_set() and stopped_at is None:
                stopped_at = time.monotonic()
            if stopped_at is not None and not closed and time.monotonic() - stopped_at > GRACE_S:
                closed = True
                for env in self._all_envs():
                    env.close()  # ends a long command; the episode sees that it was stopped and says so

    def _work(self) -> None:
        try:
            env = self._make_env()
        except KarotteError as error:
            with self._lock:
                self.result.given_up = str(error)
            return
        except Exception:  # a mistake in a task's code: shown at the end, as in `_play`
            self._note_crash()
            return
        with self._lock:
            self._envs.append(env)
        try:
            while (index := self._next()) is not None:
                self._play(index, env)
        finally:
            env.close()

    def _play(self, index: int, env: gym.Env[Any, Any]) -> None:
        with self._lock:
            self._display.started(index)
        try:
            rollout(
                env,
                self._make_agent(),
                seed=self._seed + index,
                limits=self._limits,
                stop=self._stop,
                on_turn=lambda episode: self._turn(index, episode),
                sink=lambda episode: self._ended(index, episode),
            )
        except Exception:  # a mistake in a task or in this package: on disk already, shown at the end, others go on
            self._note_crash()

    def _next(self) -> int | None:
        with self._lock:
            if self._stop.is_set() or self.result.given_up or not self._todo:
                return None
            return self._todo.pop()

    def _turn(self, index: int, episode: Episode) -> None:
        with self._lock:
            self._display.turn(index, episode)

    def _ended(self, index: int, episode: Episode) -> None:
        self._save(index, episode)
        with self._lock:
            self._display.ended(index, episode)
            self._cost_usd += episode.tokens.cost_usd or 0.0
            self._errors_in_a_row = self._errors_in_a_row + 1 if episode.status == "error" else 0
            if self._errors_in_a_row >= self._max_errors and episode.error is not None:
                self.result.given_up = (
                    f"{self._errors_in_a_row} episodes in a row had no verdict; the last: {episode.error.message}"
                )
            elif self._max_cost_usd is not None and self._cost_usd >= self._max_cost_usd:
                self.result.given_up = f"the run has cost {self._cost_usd:.2f} of {self._max_cost_usd:.2f} USD"

    def _note_crash(self) -> None:
        text = self._redact(traceback.format_exc())
        with self._lock:
            self.result.crashes.append(text)

    def _all_envs(self) -> list[gym.Env[Any, Any]]:
        with self._lock:
            return list(self._envs)
