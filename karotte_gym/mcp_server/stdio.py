"""Over standard input and output: the client started this process and is its only one.

Nothing but the protocol may reach standard output, and nothing but the protocol may read standard input: both are
taken away from everything else before the environment is made. A client that closes our input has left.
"""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from collections.abc import Coroutine
from io import TextIOWrapper
from typing import Any, BinaryIO

import anyio
from mcp.server.stdio import stdio_server

from karotte_gym.mcp_server.served_episode import ServedEpisode
from karotte_gym.mcp_server.server import make_server

__all__ = ["serve_stdio"]

MAX_LINE_BYTES = 4 * 1024 * 1024  # a message; a call is refused from 224 KiB on. A longer line ends the connection
LINGER_S = 5.0  # after the end, for the client to read its last answer and leave first


async def serve_stdio(episode: ServedEpisode, stop: asyncio.Event) -> None:
    """Serve until the client leaves, the episode is over or `stop` is set. Raises what `ServedEpisode.begin` raises."""
    wire = _Wire()
    try:
        lines = anyio.wrap_file(TextIOWrapper(wire.reader, encoding="utf-8", errors="replace"))
        async with stdio_server(stdin=lines) as (read, write):
            failed = await _failure_of(episode.begin())  # raised outside, where it does not come in a group of one
            if failed is None:
                await _serve(episode, stop, wire, read, write)
            wire.close()
    finally:
        wire.close()
    if failed is not None:
        raise failed


async def _failure_of(beginning: Coroutine[Any, Any, None]) -> Exception | None:
    try:
        await beginning
    except Exception as error:
        return error
    return None


async def _serve(episode: ServedEpisode, stop: asyncio.Event, wire: _Wire, read: Any, write: Any) -> None:
    server = make_server(episode)
    closing = asyncio.create_task(_close_at_end(episode, stop, wire))
    try:
        await server.run(read, write, server.create_initialization_options())
    finally:
        closing.cancel()


async def _close_at_end(episode: ServedEpisode, stop: asyncio.Event, wire: _Wire) -> None:
    over, stopped = asyncio.create_task(episode.over.wait()), asyncio.create_task(stop.wait())
    await asyncio.wait({over, stopped}, return_when=asyncio.FIRST_COMPLETED)
    if not stop.is_set():
        await asyncio.wait({stopped}, timeout=LINGER_S)
    wire.close()


class _Wire:
    """Standard input through a pipe of ours, which can be closed while a thread waits for more."""

    def __init__(self) -> None:
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
