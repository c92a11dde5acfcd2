"""`ServedEpisode`: one episode for any number of clients, one call at a time, in a thread of its own.

An environment belongs to one thread and runs one call at a time. Calls of several clients, or several of one, wait in
the order in which they came, so no answer is ever another call's. What the student is told is what it would be told in
Gymnasium and no more: reward, score and record stay with whoever runs the server.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import gymnasium as gym

from karotte_gym.env import KarotteEnv
from karotte_gym.tools.pictures import ImagePart

__all__ = ["Answer", "Outcome", "ServedEpisode"]

MAX_WAITING = 16  # calls that may wait for the one that runs; an honest agent has a few
GIVE_UP_WAIT_S = 5.0  # for a call that runs when the client goes, before the machine is ended under it
TOO_MANY = f"error: more than {MAX_WAITING} calls at a time; wait for answers"
FAULT = "error: the environment failed and the episode is over; this is not your doing"


@dataclass(frozen=True, slots=True)
class Answer:
    """What the student gets for a call."""

    text: str
    images: tuple[ImagePart, ...] = ()
    failed: bool = False


@dataclass
class Outcome:
    """How it ended, for the operator. One of `reward`, `given_up` and `fault` is set when the episode is over."""

    reward: float | None = None
    given_up: str = ""
    fault: BaseException | None = None
    info: dict[str, Any] = field(default_factory=dict)


class ServedEpisode:
    """Made in a running event loop. `begin` first; `over` is set when no more calls can change anything."""

    def __init__(self, make: Callable[[], gym.Env[Any, Any]], *, seed: int | None = None):
        self.over = asyncio.Event()
        self.outcome = Outcome()
        self.messages: list[dict[str, Any]] = []  # what the student is told first
        self.tools: list[dict[str, Any]] = []  # as the protocol has them
        self._make = make
        self._seed = seed
        self._env: gym.Env[Any, Any] | None = None
        self._loop = asyncio.get_running_loop()
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="karotte-episode")
        self._waiting = 0
        self._reward = 0.0

    async def begin(self) -> None:
        """Make the environment and put the student in front of its machine. Raises what that raises."""
        await self._in_thread(self._begin)

    async def call(self, name: str, arguments: Mapping[str, Any] | None) -> Answer:
        """Run a call, whatever it is. One whose client no longer waits is left out, unless it runs already."""
        if self._waiting > MAX_WAITING:
            return Answer(TOO_MANY, failed=True)
        self._waiting += 1
        try:
            return await self._in_thread(self._step, {"name": name, "arguments": arguments})
        finally:
            self._waiting -= 1

    async def give_up(self, reason: str) -> None:
        """End an episode that is not over: its record says why, and it has no score. A call that runs may finish first."""
        idle = self._loop.run_in_executor(self._thread, lambda: None)
        await asyncio.wait({idle}, timeout=GIVE_UP_WAIT_S)
        if not self.over.is_set():
            self.outcome.given_up = reason
            self.outcome.info = await asyncio.to_thread(self._break_off, reason)
            self.over.set()

    async def close(self) -> None:
        """Give the machines back; idempotent."""
        await self._in_thread(self._close)
        self._thread.shutdown()

    async def _in_thread(self, function: Callable[..., Any], *args: Any) -> Any:
        return await self._loop.run_in_executor(self._thread, function, *args)

    def _begin(self) -> None:
        self._env = self._make()
        _, info = self._env.reset(seed=self._seed)
        self.messages = info["messages"]
        self.tools = self._bare.toolset.mcp_schemas()

    def _step(self, action: dict[str, Any]) -> Answer:
        assert self._env is not None, "begin comes before call"
        if self.outcome.fault is not None:
            return Answer(FAULT, failed=True)
        try:
            obs, reward, terminated, truncated, info = self._env.step(action)
        except Exception as error:  # a fault of ours, or a machine that was ended because the client went away
            if not self.outcome.given_up:
                self.outcome.fault = error
            self._end()
            return Answer(FAULT, failed=True)
        self._reward += float(reward)
        result = self._bare.last_result
        assert result is not None
        if (terminated or truncated) and self.outcome.reward is None and not self.outcome.given_up:
            self.outcome.reward, self.outcome.info = self._reward, info
            self._end()
        return Answer(obs["content"], result.images, result.failed)

    def _break_off(self, reason: str) -> dict[str, Any]:
        return {} if self._env is None else self._bare.break_off(reason) or {}

    def _close(self) -> None:
        if self._env is not None:
            self._env.close()

    def _end(self) -> None:
        self._loop.call_soon_threadsafe(self.over.set)

    @property
    def _bare(self) -> KarotteEnv:
        assert self._env is not None and isinstance(self._env.unwrapped, KarotteEnv)
        return self._env.unwrapped
