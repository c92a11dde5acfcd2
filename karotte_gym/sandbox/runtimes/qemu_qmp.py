"""QEMU's control connection: commands with deadlines, descriptors along with them, and a bounded trace.

The other side is the emulator, which a hostile guest may have taken over. Lines are bounded, every wait has an end,
nothing that is read here is trusted for more than what the caller asked.
"""

from __future__ import annotations

import collections
import json
import socket
import time
from collections.abc import Iterator, Sequence
from typing import Any

from karotte_gym.errors import MachineError

__all__ = ["Qmp"]

MAX_LINE_BYTES = 1024 * 1024
READ_BYTES = 64 * 1024
TRACE_LINES = 200
TRACE_LINE_BYTES = 2000


class Qmp:
    """Owns the host's end of the connection. Not for several threads at once."""

    def __init__(self, connection: socket.socket):
        connection.setblocking(False)
        self._connection = connection
        self._buffer = bytearray()
        self._ready = False  # capabilities negotiated, or that was queued
        self._next_id = 0
        self.trace: collections.deque[str] = collections.deque(maxlen=TRACE_LINES)
        self.no_space = False  # the host's disk was full when the machine wanted to write

    def fileno(self) -> int:
        return self._connection.fileno()

    def drain(self) -> bool:
        """Take in events without waiting; False at the end of the connection."""
        try:
            for _ in self._lines_there():
                pass
        except (ConnectionError, ValueError):
            return False
        return True

    def send_ahead(self, commands: Sequence[tuple[str, dict[str, Any]]]) -> None:
        """Queue commands that QEMU executes in this order when it comes up; what they return is not waited for."""
        lines = [self._line(name, arguments)[1] for name, arguments in [("qmp_capabilities", {}), *commands]]
        self._connection.sendall(b"".join(lines))  # a few hundred bytes into an empty socket: never blocks
        self._ready = True

    def command(self, name: str, *, timeout_s: float, fds: tuple[int, ...] = (), **arguments: Any) -> Any:
        """Execute a command and return what it returns. MachineError when it fails or takes longer."""
        deadline = time.monotonic() + timeout_s
        try:
            if not self._ready:
                self._execute("qmp_capabilities", {}, (), deadline)
                self._ready = True
            return self._execute(name, arguments, fds, deadline)
        except TimeoutError:
            raise MachineError(f"QEMU did not answer {name} within {timeout_s:.0f} s") from None
        except (OSError, ValueError) as error:
            raise MachineError(f"QEMU ended or spoke rubbish when asked to {name}: {error}") from error

    def close(self) -> None:
        self._connection.close()

    def _line(self, name: str, arguments: dict[str, Any]) -> tuple[int, bytes]:
        self._next_id += 1
        line = json.dumps({"execute": name, "arguments": arguments, "id": self._next_id})
        self._note("> " + line)
        return self._next_id, line.encode() + b"\n"

    def _execute(self, name: str, arguments: dict[str, Any], fds: tuple[int, ...], deadline: float) -> Any:
        identity, line = self._line(name, arguments)
        self._connection.settimeout(max(0.001, deadline - time.monotonic()))
        try:
            socket.send_fds(self._connection, [line], fds)
        finally:
            self._connection.setblocking(False)
        reply = self._reply(identity, deadline)
        if "return" not in reply:
            raise MachineError(f"QEMU refused {name}: {str(reply.get('error'))[:500]}")
        return reply["return"]

    def _reply(self, identity: int, deadline: float) -> dict[str, Any]:
        while True:
            for message in self._lines_there():
                if message.get("id") == identity:
                    return message
            left = deadline - time.monotonic()
            if left <= 0:
                raise TimeoutError
            self._connection.settimeout(left)
            try:
                data = self._connection.recv(READ_BYTES)
            finally:
                self._connection.setblocking(False)
            self._take(data)

    def _lines_there(self) -> Iterator[dict[str, Any]]:
        while True:
            line, found, rest = self._buffer.partition(b"\n")
            if found:
                self._buffer = rest
                yield self._message(bytes(line))
                continue
            try:
                self._take(self._connection.recv(READ_BYTES))
            except BlockingIOError:
                return

    def _take(self, data: bytes) -> None:
        if not data:
            raise ConnectionResetError("end of the connection")
        self._buffer += data
        if len(self._buffer) > MAX_LINE_BYTES:
            raise ValueError("a line without end")

    def _message(self, line: bytes) -> dict[str, Any]:
        self._note("< " + line[:TRACE_LINE_BYTES].decode("utf-8", "replace"))
        try:
            message = json.loads(line)
        except RecursionError:
            raise ValueError("nested without end") from None
        if not isinstance(message, dict):
            raise ValueError("no object")
        data = message.get("data")
        if message.get("event") == "BLOCK_IO_ERROR" and isinstance(data, dict) and data.get("nospace") is True:
            self.no_space = True
        return message

    def _note(self, line: str) -> None:
        self.trace.append("".join(c if c.isprintable() else "?" for c in line[:TRACE_LINE_BYTES]))
