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
from typing import Any, Literal

import gymnasium as gym

from karotte_gym.env import KarotteEnv
from karotte_gym.tools.pictures import ImagePart
from karotte_gym.tools.toolset import SUBMIT

__all__ = ["Answer", "Leaving", "Outcome", "ServedEpisode"]

MAX_WAITING = 16  # calls that may wait for the one that runs; an honest agent has a few
GIVE_UP_WAIT_S = 5.0  # for a call that runs when the client goes, before the machine is ended under it
TOO_MANY = f"error: more than {MAX_WAITING} calls at a time; wait for answers"
CLOSE_WAIT_S = 5.0  # for a machine to go and a record to be written; grading may take longer, and nobody waits for it
Leaving = Literal["left", "silence"]
LEAVING: dict[Leaving, str] = {
    "left": "the agent left before the end",
    "silence": "the agent fell silent before the end",
}
FAULT = "error: the environment failed and the episode is over; this is not your doing"


@dataclass(frozen=True, slots=True)
class Answer:
    """What the student gets for a call."""

    text: str
    images: tuple[ImagePart, ...] = ()
    failed: bool = False


@dataclass
class Outcome:
    """How it ended, for the operator. One of `reward`, `given_up` and `fault` is set when the episode is over.

    `left` says that the reward is 0 because the agent went.
    """

    reward: float | None = None
    left: str = ""
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
        self._submitting = False
        self._begun = False  # a start that was stopped is not waited for: it may build an image, and there is nothing to keep

    async def begin(self, stop: asyncio.Event) -> bool:
        """Make the environment and put the student in front of its machine. Raises what that raises.

        False as soon as `stop` is set before: what is begun goes on in its thread, and nobody may call.
        """
        beginning = self._loop.run_in_executor(self._thread, self._begin)
        await _first_of(beginning, stop)
        if not beginning.done():
            beginning.add_done_callback(asyncio.Future.exception)  # whoever stopped it need not hear how it would have failed
            return False
        self._begun = True
        beginning.result()
        return not stop.is_set()

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
        """For the operator: end an episode that is not over. Its record says why, and it has no score.

        A call that runs may finish first.
        """
        await asyncio.wait({self._idle()}, timeout=GIVE_UP_WAIT_S if self._begun else 0)
        if not self._ended:
            self.outcome.given_up = reason
            await self._break_off(reason)

    async def leave(self, how: Leaving, stop: asyncio.Event) -> None:
        """The student's side went: an episode that is not over scores 0.

        Without a score a student could have its losing episodes dropped, by crashing its client. A call that runs may
        finish first, and what was handed in is graded, however long that takes; but no longer than until `stop`, for
        a client that leaves terminates its server soon and kills it after.
        """
        await _first_of(self._idle(), stop, None if self._submitting else GIVE_UP_WAIT_S)
        if not self._ended:
            self.outcome.reward, self.outcome.left = 0.0, LEAVING[how]
            await self._break_off(LEAVING[how], how)

    async def close(self) -> bool:
        """Give the machines back; idempotent.

        False when a thread is still busy after a while, with a start or with grading: then only the end of the process
        ends that, and takes its machines along.
        """
        closing = self._loop.run_in_executor(self._thread, self._close)
        await asyncio.wait({closing}, timeout=CLOSE_WAIT_S if self._begun else 0)
        self._thread.shutdown(wait=False)
        if closing.done():
            closing.result()
        return closing.done()

    def _idle(self) -> asyncio.Future[None]:
        """Done when no call runs or waits any more."""
        return self._loop.run_in_executor(self._thread, lambda: None)

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
        self._submitting = action["name"] == SUBMIT
        try:
            obs, reward, terminated, truncated, info = self._env.step(action)
        except Exception as error:  # a fault of ours, or a machine that was ended because the client went away
            if not self._gone:
                self.outcome.fault = error
            self._end()
            return Answer(FAULT, failed=True)
        finally:
            self._submitting = False
        self._reward += float(reward)
        result = self._bare.last_result
        assert result is not None
        if (terminated or truncated) and self.outcome.reward is None and not self._gone:
            self.outcome.reward, self.outcome.info = self._reward, info
            self._end()
        return Answer(obs["content"], result.images, result.failed)

    async def _break_off(self, reason: str, limit: str | None = None) -> None:
        if self._env is not None:
            ending = asyncio.to_thread(self._bare.break_off, reason, limit=limit)
            self.outcome.info = await ending or {}
        self.over.set()

    @property
    def _ended(self) -> bool:
        """Also when the thread has yet to set `over`."""
        return self.over.is_set() or self.outcome.reward is not None or self.outcome.fault is not None

    @property
    def _gone(self) -> bool:
        """What comes of a machine that was ended under its call is nobody's doing."""
        return bool(self.outcome.given_up or self.outcome.left)

    def _close(self) -> None:
        if self._env is not None:
            self._env.close()

    def _end(self) -> None:
        self._loop.call_soon_threadsafe(self.over.set)

    @property
    def _bare(self) -> KarotteEnv:
        assert self._env is not None and isinstance(self._env.unwrapped, KarotteEnv)
        return self._env.unwrapped


async def _first_of(future: asyncio.Future[Any], stop: asyncio.Event, timeout_s: float | None = None) -> None:
    """Wait until `future` is done, `stop` is set or the time is up."""
    stopped = asyncio.create_task(stop.wait())
    try:
        await asyncio.wait({future, stopped}, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
    finally:
        stopped.cancel()
