"""A process that is forked early and sends ``kill(-1, SIGKILL)`` as another user when asked.

Only ``kill(-1)`` as the user reaches all of a user's processes at one moment. The agent can't become the user (it has
threads), and forking for it at the time may fail: the student may have filled the process table. The helper takes the
user's id as its *effective* uid alone. Real and saved uid decide who may signal it, so the student can't kill it in
turn; its real uid is one that nobody runs as, because the sender's real uid counts as well; and its saved uid stays 0,
which is the way back.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import struct
import threading

from . import syscalls

__all__ = ["RESERVED_UID", "Killer"]

RESERVED_UID = 64999  # in Debian's range for nobody in particular (60000 to 64999 is allocated on demand); runs nothing
ANSWER_TIMEOUT_S = 10.0
_REQUEST = struct.Struct("=I")


class Killer:
    """The helper, started on first use or by `ensure`, and started again when it is gone. Safe between threads."""

    def __init__(self, *, real_time: bool = False) -> None:
        self._real_time = real_time  # for a machine in which the student's processes would come before it otherwise
        self._lock = threading.Lock()
        self._socket: socket.socket | None = None
        self._pid = 0
        self._pidfd = -1

    def ensure(self) -> None:
        """Start the helper unless it runs. OSError when no process can be made."""
        with self._lock:
            self._start()

    def kill_all_of(self, uid: int) -> None:
        """Send SIGKILL to every process of `uid`, in one system call. A helper that was lost is replaced once."""
        with self._lock:
            for attempt in (1, 2):
                try:
                    self._start()
                    self._ask(uid)
                    return
                except OSError:
                    self._stop()
                    if attempt == 2:
                        raise

    def close(self) -> None:
        """End the helper."""
        with self._lock:
            self._stop()

    def _start(self) -> None:
        if self._socket is not None:
            return
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            try:
                pid = os.fork()
            except BaseException:
                ours.close()
                raise
            if pid == 0:
                _serve(theirs.fileno(), self._real_time)
        ours.settimeout(ANSWER_TIMEOUT_S)
        self._socket, self._pid, self._pidfd = ours, pid, os.pidfd_open(pid)

    def _ask(self, uid: int) -> None:
        assert self._socket is not None
        self._socket.sendall(_REQUEST.pack(uid))
        answer = self._socket.recv(_REQUEST.size)
        if len(answer) != _REQUEST.size:
            raise ConnectionResetError("the helper that kills has gone")
        (code,) = _REQUEST.unpack(answer)
        if code:
            raise OSError(code, f"kill as uid {uid}: {os.strerror(code)}")

    def _stop(self) -> None:
        if self._socket is None:
            return
        self._socket.close()
        self._socket = None
        with contextlib.suppress(ProcessLookupError):  # it has ended already, which may be why we are here
            signal.pidfd_send_signal(self._pidfd, signal.SIGKILL)
        os.close(self._pidfd)
        with contextlib.suppress(ChildProcessError):  # another reaper of the agent's was quicker
            os.waitpid(self._pid, 0)


def _serve(descriptor: int, real_time: bool) -> None:
    """The helper's life: never returns. It keeps no descriptor of the agent's but its own end of the socket."""
    try:
        if real_time:
            syscalls.become_important()
        for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
            if number < 32:
                signal.signal(number, signal.SIG_DFL)
        os.dup2(descriptor, 3)
        os.closerange(4, 65536)
        while request := os.read(3, _REQUEST.size):
            os.write(3, _REQUEST.pack(_kill_as(*_REQUEST.unpack(request))))
    finally:
        os._exit(0)


def _kill_as(uid: int) -> int:
    """Errno of the attempt; nobody there to kill is success."""
    os.setresuid(RESERVED_UID, uid, 0)
    try:
        os.kill(-1, signal.SIGKILL)
    except ProcessLookupError:
        return 0
    except OSError as error:
        return error.errno or 1
    finally:
        os.setresuid(0, 0, 0)
    return 0
