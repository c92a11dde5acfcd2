"""Over standard input and output: the client started this process and is its only one.

Nothing but the protocol may reach standard output, and nothing but the protocol may read standard input: both are
taken away from everything else before the environment is made. A client that closes one of them has left.

Reading and writing wait in threads that do not keep the process: a client that neither speaks nor listens holds up
nothing, at whatever moment it all has to end.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import queue
import sys
import threading
from collections.abc import AsyncIterable, AsyncIterator
from io import TextIOWrapper
from typing import Any, BinaryIO, cast

import anyio
from mcp.server.stdio import stdio_server

from karotte_gym.mcp_server.served_episode import Leaving, ServedEpisode
from karotte_gym.mcp_server.server import make_server
from karotte_gym.mcp_server.unreadable import refusals

__all__ = ["serve_stdio"]

log = logging.getLogger(__name__)

MAX_LINE_BYTES = 4 * 1024 * 1024  # a message; a call is refused from 224 KiB on. A longer line ends the connection
LINGER_S = 5.0  # after the end, for the client to read its last answer and leave first
DRAIN_S = 1.0  # after the client closed its end, for what it said before


async def serve_stdio(episode: ServedEpisode, stop: asyncio.Event) -> Leaving | None:
    """Serve until the client leaves, the episode is over or `stop` is set. Raises what `ServedEpisode.begin` raises.

    Returns how the client left, should the episode not be over; None when `stop` came first.
    """
    left = _Left()
    output = _Output(left)
    wire = _Wire(left)
    try:
        stopped = not await episode.begin(stop) or await _serve(episode, stop, wire, output, left)
    finally:
        wire.close()
        output.close()
    return None if stopped else "left"


async def _serve(episode: ServedEpisode, stop: asyncio.Event, wire: _Wire, output: _Output, left: _Left) -> bool:
    """Whether `stop` came before the client left. One that leaves terminates its server soon, and has left all the same.

    A connection that breaks is the client's leaving, whatever the SDK raises for it: what a client says must not be a
    way to have its episode dropped. What it raises because it was told to end is nobody's fault.
    """
    serving = asyncio.create_task(_answer(episode, wire, output))
    try:
        await _first_of(serving, episode.over, stop, left.event)
        stopped = stop.is_set()
        if not stopped:
            await _first_of(serving, stop, timeout_s=LINGER_S if episode.over.is_set() else DRAIN_S)
    finally:
        broken = _fault(serving)
        wire.close()  # a thread that reads cannot be cancelled
        serving.cancel()
        await asyncio.wait({serving})
        _fault(serving)  # heard, or asyncio complains of it
    if broken is not None and not stopped:
        log.warning("the connection to the agent broke: %r", broken)
    return stopped


def _fault(serving: asyncio.Task[None]) -> BaseException | None:
    return serving.exception() if serving.done() and not serving.cancelled() else None


async def _answer(episode: ServedEpisode, wire: _Wire, output: _Output) -> None:
    lines = anyio.wrap_file(TextIOWrapper(wire.reader, encoding="utf-8", errors="replace"))
    server = make_server(episode)
    readable = cast("Any", _readable(lines, output))
    async with stdio_server(stdin=readable, stdout=cast("Any", output)) as (read, write):
        await server.run(read, write, server.create_initialization_options())


async def _readable(lines: AsyncIterable[str], output: _Output) -> AsyncIterator[str]:
    """The lines that the SDK reads; each of the others is answered here."""
    async for line in lines:
        refused = refusals(line)
        for refusal in refused:
            await output.write(refusal)
        if not refused:
            yield line


async def _first_of(serving: asyncio.Task[None], *events: asyncio.Event, timeout_s: float | None = None) -> None:
    waiting = [asyncio.create_task(event.wait()) for event in events]
    try:
        await asyncio.wait({serving, *waiting}, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in waiting:
            task.cancel()


class _Left:
    """Set from threads when the client closed its end."""

    def __init__(self) -> None:
        self.event = asyncio.Event()
        self._loop = asyncio.get_running_loop()

    def set(self) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed: everything is over
            self._loop.call_soon_threadsafe(self.event.set)


class _Output:
    """Standard output as the SDK writes it; a client that reads nothing makes the SDK wait, and no more than that."""

    def __init__(self, left: _Left) -> None:
        self._left = left
        self._loop = asyncio.get_running_loop()
        sys.stdout.flush()
        self._target = os.dup(sys.stdout.fileno())
        os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
        self._texts: queue.SimpleQueue[tuple[bytes, asyncio.Future[None]] | None] = queue.SimpleQueue()
        threading.Thread(target=self._pump, name="karotte-stdout", daemon=True).start()

    async def write(self, text: str) -> None:
        """Done when the client's pipe has it all, or when the client has left."""
        written = self._loop.create_future()
        self._texts.put((text.encode("utf-8", "replace"), written))
        await written

    async def flush(self) -> None:
        """Nothing is held back."""

    def close(self) -> None:
        """What is being written may still be."""
        self._texts.put(None)

    def _pump(self) -> None:
        with open(self._target, "wb", buffering=0) as target:
            while (item := self._texts.get()) is not None:
                text, written = item
                try:
                    view = memoryview(text)
                    while view:
                        view = view[target.write(view) :]
                except OSError:
                    self._left.set()
                self._tell(written)

    def _tell(self, written: asyncio.Future[None]) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits
            self._loop.call_soon_threadsafe(self._done, written)

    @staticmethod
    def _done(written: asyncio.Future[None]) -> None:
        if not written.done():
            written.set_result(None)


class _Wire:
    """Standard input through a pipe of ours, which can be closed while a thread waits for more."""

    def __init__(self, left: _Left) -> None:
        self._left = left
        source = os.dup(sys.stdin.fileno())
        nothing = os.open(os.devnull, os.O_RDONLY)
        os.dup2(nothing, sys.stdin.fileno())  # children of ours must not take what the client says
        os.close(nothing)
        reader, self._writer = os.pipe()
        self.reader: BinaryIO = os.fdopen(reader, "rb")
        self._lock = threading.Lock()
        self._closed = False
        threading.Thread(target=self._pump, args=(source,), name="karotte-stdin", daemon=True).start()

    def close(self) -> None:
        """The reader finds the end; idempotent."""
        with self._lock:
            if not self._closed:
                self._closed = True
                os.close(self._writer)

    def _pump(self, source: int) -> None:
        """Pass line by line on, for one without an end must not fill the memory."""
        with open(source, "rb") as lines:
            while line := lines.readline(MAX_LINE_BYTES + 1):
                if len(line) > MAX_LINE_BYTES or not self._passed_on(line):
                    break
        self.close()
        self._left.set()

    def _passed_on(self, line: bytes) -> bool:
        view = memoryview(line)
        while view:
            with self._lock:
                if self._closed:
                    return False
                writer = os.dup(self._writer)  # so that a write that waits holds no lock
            try:
                view = view[os.write(writer, view) :]
            except BrokenPipeError:
                return False
            finally:
                os.close(writer)
        return True
