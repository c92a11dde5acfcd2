"""Pipes between the agent and the student's shells: named ones, and a thread that empties what nobody reads any more.

Every call of the shell writes its output into a named pipe of its own. So what an earlier call left running in the
background does not get into a later result, and nothing that a command does to its descriptors outlives the call. A
student that wants to can still write into its own later results, by the shell's own output, and fools itself alone.
The names lie in a directory that the student can enter but neither list nor write; a pipe can be opened for writing only.
"""

from __future__ import annotations

import contextlib
import fcntl
import itertools
import os
import select
import sys
import termios
import threading
import time

from .aside import start_thread

__all__ = ["Drain", "NamedPipe", "PipeDirectory", "ReadBuffer", "unread_bytes"]

F_SETPIPE_SZ = 1031
CALL_PIPE_BYTES = 4 * 1024 * 1024  # more than a pause of ours lets a program write, so that none waits for us
KEPT_PIPE_BYTES = 64 * 1024  # of a pipe that is only drained
READ_BYTES = 256 * 1024
MAX_DRAINED = 256  # pipes of background jobs that are kept open; the oldest is closed, whose writers get SIGPIPE
_NO_BYTES = bytes(4)  # the room for a number
DRAIN_PAUSE_S = 0.02  # a background flood is slowed to some 50 MiB/s and must not take the processor from the student


class PipeDirectory:
    """A directory of named pipes: `outside` is its path for the agent, `inside` its path for the student."""

    def __init__(self, outside: str, inside: str):
        self.outside, self.inside = outside, inside
        self._numbers = itertools.count(1)
        os.makedirs(outside, mode=0o711, exist_ok=True)
        os.chmod(outside, 0o711)

    def make(self, *, mode: int, name: str | None = None) -> NamedPipe:
        """A fresh named pipe; what had its name is removed first."""
        return NamedPipe(self, name or str(next(self._numbers)), mode)

    def make_for_call(self, spare: NamedPipe | None) -> NamedPipe:
        """A pipe that the student can write to and that holds much: `spare` when it can serve, else a new one."""
        if spare is not None:
            if spare.is_untouched() or spare.renew(str(next(self._numbers))):
                return spare
            spare.close()  # its call had ended: whoever has it open was not left running but opened it since
        pipe = self.make(mode=0o622)
        pipe.resize(CALL_PIPE_BYTES)
        return pipe


class NamedPipe:
    """A named pipe of root's, opened for reading so that a writer never has to wait for its opening."""

    def __init__(self, directory: PipeDirectory, name: str, mode: int):
        self._directory = directory
        self.path = f"{directory.outside}/{name}"
        self.seen_path = f"{directory.inside}/{name}"
        self._named = True
        self.used = False  # by a call
        try:
            os.mkfifo(self.path, 0o600)
        except FileExistsError:  # of a shell that was never used
            os.unlink(self.path)
            os.mkfifo(self.path, 0o600)
        os.chmod(self.path, mode)
        self.fd = os.open(self.path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)

    def forget_name(self) -> None:
        """Remove the name; whoever has the pipe open keeps it. Idempotent."""
        if self._named:
            self._named = False
            os.unlink(self.path)

    def is_untouched(self) -> bool:
        """Whether no call had it since it was made or renewed, nothing was written to it, and nobody has let go of it."""
        return not self.used and not self._poller().poll(0)

    def renew(self, name: str) -> bool:
        """Serve another call under another name; False when somebody has written to it, or opened it, since it ended.

        Opening it again makes the kernel forget that there was a writer, whose absence would read as an end.
        """
        if self._poller().poll(0) != [(self.fd, select.POLLHUP)]:
            return False
        path = f"{self._directory.outside}/{name}"
        os.rename(self.path, path)  # who noted the old name writes to nobody
        self.path, self.seen_path = path, f"{self._directory.inside}/{name}"
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        os.close(self.fd)
        self.fd, self.used = fd, False
        return True

    def _poller(self) -> select.poll:
        poller = select.poll()
        poller.register(self.fd, select.POLLIN)
        return poller

    def resize(self, size: int) -> None:
        """Set the capacity; a pipe that holds more than that keeps its own."""
        with contextlib.suppress(OSError):
            fcntl.fcntl(self.fd, F_SETPIPE_SZ, size)

    def close(self) -> None:
        """Name and descriptor."""
        self.forget_name()
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1


def unread_bytes(fd: int) -> int:
    """How much lies in a pipe."""
    return int.from_bytes(fcntl.ioctl(fd, termios.FIONREAD, _NO_BYTES), sys.byteorder)


class ReadBuffer:
    """Memory to read into, allocated once: the agent's is locked, so that a fresh piece for each read costs its pages."""

    def __init__(self) -> None:
        self._memory = bytearray(READ_BYTES)
        self._view = memoryview(self._memory)
        self._null = open("/dev/null", "wb", buffering=0)  # noqa: SIM115 - lives as long as the buffer

    def read(self, fd: int) -> memoryview:
        """What a read gives, valid until the next one; empty at the end of the pipe."""
        return self._view[: os.readv(fd, [self._memory])]

    def throw_away(self, fd: int, count: int) -> int:
        """Let the kernel drop up to `count` bytes of a pipe without copying them; returns how many."""
        return os.splice(fd, self._null.fileno(), count)


class Drain:
    """Owns read ends of pipes and throws away what comes, so that background jobs neither block nor die."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._fds: dict[int, None] = {}
        self._epoll = select.epoll()
        self._closed = False
        self._end = os.eventfd(0, os.EFD_CLOEXEC)  # readable: to be closed
        self._epoll.register(self._end, select.EPOLLIN)
        self._buffer = ReadBuffer()
        start_thread(self._run, "drain")  # now: to start one among a thousand takes seconds

    def adopt(self, fd: int) -> None:
        """Take over `fd` (non-blocking); it is closed when its last writer is gone."""
        with self._lock:
            if self._closed:
                os.close(fd)
                return
            if len(self._fds) >= MAX_DRAINED:
                self._drop(next(iter(self._fds)))
            self._fds[fd] = None
            self._epoll.register(fd, select.EPOLLIN)

    def close(self) -> None:
        """Close everything; the thread ends. Idempotent."""
        with self._lock:
            if not self._closed:
                self._closed = True
                os.eventfd_write(self._end, 1)
            for fd in list(self._fds):
                self._drop(fd)

    def _run(self) -> None:
        while True:
            ready = self._epoll.poll()
            with self._lock:
                if self._closed:
                    self._epoll.close()
                    os.close(self._end)
                    return
                for fd, _ in ready:
                    if fd in self._fds and not self._skip(fd):
                        self._drop(fd)
            if ready:
                time.sleep(DRAIN_PAUSE_S)

    def _drop(self, fd: int) -> None:
        del self._fds[fd]
        self._epoll.unregister(fd)
        os.close(fd)

    def _skip(self, fd: int) -> bool:
        """Read and forget; False at the end of the pipe."""
        try:
            return len(self._buffer.read(fd)) > 0
        except BlockingIOError:
            return True
