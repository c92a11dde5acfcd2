"""Starting processes through a launcher: a single-threaded process of ours that forks on request.

The agent has threads and is too precious to fork. It asks a *launcher* over a socket pair: the root launcher, forked
before the first thread, for root's programs; the session's leader (`leader.py`) for the student's. The same launcher
program serves both; this module is the agent's end and the format of the requests. Everything that is sent back comes
by descriptors, so that no launcher ever waits for a process that it started:

- a pidfd, by which a process is signalled and its end is noticed without any reuse of pids;
- a status pipe: ``F``, an exit code, a length and a text when the start failed; then, or alone, ``X`` and four bytes of
  exit code from the launcher's reaper;
- for calls of a function, the result pipe: ``R`` and the bytes, or ``E`` and the traceback.
"""

from __future__ import annotations

import array
import contextlib
import os
import pickle
import select
import signal
import socket
import struct
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

__all__ = ["FAILURE", "CallFailed", "Launcher", "LauncherGone", "Process", "receive", "send"]

INLINE_BYTES = 32 * 1024  # a longer request travels in a memory file; a datagram is bounded by the socket's buffer
MAX_FDS = 64
ANSWER_TIMEOUT_S = 20.0  # a fork in an exhausted machine may have to wait for the kernel to kill something
_STATUS = struct.Struct("=ci")
FAILURE = struct.Struct("=cBH")  # F, exit code, bytes of the text: the reaper may have written behind it
UNKNOWN_EXIT = 137  # the reaper died before it could tell: it only ever does so together with all its children


class CallFailed(Exception):
    """A function called in another process raised, or that process died: the text says which."""


class LauncherGone(Exception):
    """The launcher is not there any more (a session's leader after the end of the session)."""


def send(channel: socket.socket, message: object, fds: Sequence[int] = ()) -> None:
    """One message with descriptors, whole or not at all."""
    data = pickle.dumps(message)
    if len(data) <= INLINE_BYTES:
        _send(channel, b"I" + data, fds)
        return
    with open(os.memfd_create("request", os.MFD_CLOEXEC), "w+b", buffering=0) as file:
        file.write(data)
        _send(channel, b"M", (file.fileno(), *fds))


def _send(channel: socket.socket, data: bytes, fds: Sequence[int]) -> None:
    socket.send_fds(channel, [data], list(fds))


def receive(channel: socket.socket) -> tuple[Any, list[int]] | None:
    """The next message and its descriptors (close-on-exec); None when the other end is gone."""
    size = socket.CMSG_SPACE(MAX_FDS * array.array("i").itemsize)
    data, ancillary, _, _ = channel.recvmsg(INLINE_BYTES + 16, size, socket.MSG_CMSG_CLOEXEC)
    if not data:
        return None
    fds = array.array("i")
    for _level, _kind, payload in ancillary:
        fds.frombytes(payload[: len(payload) - len(payload) % fds.itemsize])
    numbers = list(fds)
    if data[:1] == b"I":
        return pickle.loads(data[1:]), numbers
    with open(numbers.pop(0), "rb", buffering=0) as file:
        file.seek(0)
        return pickle.loads(file.read()), numbers


class Process:
    """A process that a launcher started. `pid` is its number as the agent sees it."""

    def __init__(self, pid: int, pidfd: int, status_fd: int):
        self.pid = pid
        self.pidfd = pidfd
        self.failure = ""  # why it could not be started, once `wait` has returned 126 or 127
        self._status_fd = status_fd
        self._exit_code: int | None = None
        self._lock = threading.Lock()

    def wait(self, timeout_s: float | None = None) -> int | None:
        """Exit code (128+n when signal n ended it), None while it runs. Nothing that it does prolongs the wait."""
        with self._lock:
            if self._exit_code is None and _readable(self._status_fd, timeout_s):
                self._exit_code = self._read_status()
            return self._exit_code

    def _read_status(self) -> int:
        data = os.read(self._status_fd, 4096)
        if data[:1] == b"F":
            _, code, size = FAILURE.unpack_from(data)
            self.failure = data[FAILURE.size : FAILURE.size + size].decode(errors="replace")
            return int(code)
        if len(data) == _STATUS.size:
            return int(_STATUS.unpack(data)[1])
        return UNKNOWN_EXIT

    def kill(self, number: int = signal.SIGKILL) -> None:
        """Signal it; nothing happens when it has ended."""
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(self.pidfd, number)

    def kill_group(self, number: int = signal.SIGKILL) -> None:
        """Signal its process group, which it leads from its start. Only sound while it was not reaped: ask first."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, number)

    def close(self) -> None:
        """Give its descriptors back. The process itself is left alone."""
        with self._lock:
            for fd in (self.pidfd, self._status_fd):
                if fd >= 0:
                    os.close(fd)
            self.pidfd = self._status_fd = -1

    def __enter__(self) -> Process:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def __del__(self) -> None:
        self.close()


def _readable(fd: int, timeout_s: float | None) -> bool:
    poller = select.poll()
    poller.register(fd, select.POLLIN | select.POLLHUP)
    return bool(poller.poll(None if timeout_s is None else max(0.0, timeout_s) * 1000))


def pid_of(pidfd: int) -> int:
    """The pid behind a pidfd in our own PID namespace; -1 when it was reaped."""
    with open(f"/proc/self/fdinfo/{pidfd}") as file:
        for line in file:
            if line.startswith("Pid:"):
                return int(line.split()[1])
    raise OSError(f"descriptor {pidfd} is no pidfd")


class Launcher:
    """The agent's end of a launcher's socket. Safe between threads: one exchange at a time, each a fork long.

    Each request has a number and its answer the same one, so that an answer that came too late is not taken for the next.
    """

    def __init__(self, channel: socket.socket):
        self._channel = channel
        self._lock = threading.Lock()
        self._number = 0
        channel.settimeout(ANSWER_TIMEOUT_S)

    def spawn(
        self,
        argv: Sequence[str],
        *,
        env: Mapping[str, str],
        cwd: str,
        stdin: int,
        stdout: int,
        stderr: int,
        pass_fds: Sequence[int] = (),
        first: bool = False,
    ) -> Process:
        """Start a program in a session and process group of its own. `pass_fds` keep their numbers in it.

        `first`: before all others of its group whenever it wants the processor, but not so what it starts in turn.
        """
        targets = (0, 1, 2, *pass_fds)
        request = {"do": "spawn", "argv": list(argv), "env": dict(env), "cwd": cwd, "targets": targets, "first": first}
        process, _ = self._start(request, (stdin, stdout, stderr, *pass_fds))
        return process

    def call(
        self,
        function: Callable[..., bytes],
        *args: Any,
        timeout_s: float,
        max_bytes: int,
        as_root: bool = False,
        first: bool = False,
    ) -> bytes:
        """Run `function` (of a module) in a fork of the launcher and return its bytes. `first` as for `spawn`.

        TimeoutError, OverflowError (more than `max_bytes`) and CallFailed (it raised or died) after it was killed.
        """
        request: dict[str, Any] = {"do": "root-call" if as_root else "call", "module": function.__module__, "first": first}
        request.update(name=function.__qualname__, args=pickle.dumps(args))
        process, rest = self._start(request, ())
        with process, open(rest[0], "rb", buffering=0) as pipe:
            try:
                return _result(pipe.fileno(), time.monotonic() + timeout_s, max_bytes, function.__qualname__)
            finally:
                process.kill()

    def start_leader(self, plan: dict[str, Any], fds: Sequence[int]) -> Process:
        """Only of the root launcher: fork a leader, which serves the first of `fds`."""
        process, _ = self._start({"do": "leader", "plan": plan}, fds)
        return process

    def tell(self, what: str, fds: Sequence[int] = (), **values: Any) -> None:
        """Change something in the launcher itself; returns when it is done."""
        self._exchange({"do": what, **values}, fds)

    def close(self) -> None:
        """The launcher ends when its channel does."""
        self._channel.close()

    def _start(self, request: dict[str, Any], fds: Sequence[int]) -> tuple[Process, list[int]]:
        _, received = self._exchange(request, fds)
        pidfd, status_fd, *rest = received
        return Process(pid_of(pidfd), pidfd, status_fd), rest

    def _exchange(self, request: dict[str, Any], fds: Sequence[int]) -> tuple[Any, list[int]]:
        with self._lock:
            self._number += 1
            try:
                send(self._channel, {**request, "number": self._number}, fds)
                message, received = self._answer_to(self._number)
            except OSError as error:
                raise LauncherGone(f"the launcher can't be asked: {error}") from error
        if message.get("error"):
            raise OSError(message["error"], os.strerror(message["error"]))
        return message, received

    def _answer_to(self, number: int) -> tuple[Any, list[int]]:
        deadline = time.monotonic() + ANSWER_TIMEOUT_S
        while True:
            if not _readable(self._channel.fileno(), deadline - time.monotonic()):
                raise TimeoutError(f"no answer for {ANSWER_TIMEOUT_S:.0f} s")
            answer = receive(self._channel)
            if answer is None:
                raise LauncherGone("the launcher has ended")
            message, received = answer
            if message["number"] == number:
                return message, received
            _give_up(received)


def _give_up(received: Sequence[int]) -> None:
    """End what was started for a caller that had stopped waiting: nobody else ever would."""
    if received:
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(received[0], signal.SIGKILL)
    for fd in received:
        os.close(fd)


def _result(fd: int, deadline: float, max_bytes: int, name: str) -> bytes:
    chunks: list[bytes] = []
    size = 0
    while True:
        left_s = deadline - time.monotonic()
        if left_s <= 0 or not _readable(fd, left_s):
            raise TimeoutError(f"{name} did not answer in time")
        chunk = os.read(fd, 1 << 18)
        if not chunk:
            break
        chunks.append(chunk)
        size += len(chunk)
        if size > max_bytes + 4096:  # room for the letter and for a traceback
            raise OverflowError(f"{name} answered more than {max_bytes} bytes")
    data = b"".join(chunks)
    if data[:1] == b"R":
        if len(data) - 1 > max_bytes:
            raise OverflowError(f"{name} answered more than {max_bytes} bytes")
        return data[1:]
    raise CallFailed(data[1:].decode(errors="replace") or f"{name} was killed before it answered")
