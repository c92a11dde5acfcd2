"""The harness' side of the warden (`warden_main.py`): start it on demand, ask it for processes, survive its death.

There is one warden per harness process. A forked child of the harness closes its copy of the control socket and gets
a warden of its own when it needs one. What `spawn` returns holds a pidfd, so killing never hits a recycled pid.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from karotte_gym.errors import MachineError

__all__ = ["OWN_UID", "SpawnedProcess", "spawn"]

OWN_UID = -1  # a uid that no other living machine has
SPAWN_TIMEOUT_S = 20.0  # fork and exec take milliseconds; a swapping host takes seconds
END_TIMEOUT_S = 5.0
_SCRIPT = Path(__file__).with_name("warden_main.py")


class SpawnedProcess:
    """A process that the warden started, known by its pidfd. All methods may be called from any thread."""

    def __init__(self, pid: int, pidfd: int):
        self.pid = pid
        self._pidfd = pidfd
        self._lock = threading.Lock()

    def kill(self) -> None:
        """SIGKILL; nothing happens when it has ended or was released."""
        with self._lock, contextlib.suppress(ProcessLookupError):
            if self._pidfd >= 0:
                signal.pidfd_send_signal(self._pidfd, signal.SIGKILL)

    def wait(self, timeout_s: float) -> bool:
        """Whether it has ended within `timeout_s`."""
        with self._lock:
            if self._pidfd < 0:
                return True
            pidfd = os.dup(self._pidfd)  # another thread may kill and release meanwhile
        try:
            poller = select.poll()
            poller.register(pidfd, select.POLLIN)
            return bool(poller.poll(max(0, round(timeout_s * 1000))))
        finally:
            os.close(pidfd)

    def release(self) -> None:
        """Close the pidfd; idempotent. In a forked child this is all that may be done."""
        with self._lock:
            if self._pidfd >= 0:
                os.close(self._pidfd)
                self._pidfd = -1


def spawn(
    argv: Sequence[str],
    fds: Mapping[int, int],
    *,
    uid: int | None = None,
    gid: int | None = None,
    rlimits: Mapping[str, int] | None = None,
    directory: Path | None = None,
) -> SpawnedProcess:
    """Start `argv` with descriptors ``{number in the new process: ours}``, to die with this harness.

    `uid` None keeps the user; `rlimits` are names without ``RLIMIT_``. `directory` is removed when the process ends.
    MachineError when the program can't be started.
    """
    request = {
        "argv": list(argv),
        "fds": list(fds),
        "uid": uid,
        "gid": gid,
        "rlimits": dict(rlimits or {}),
        "directory": None if directory is None else str(directory),
    }
    with _state.lock:
        for attempt in (1, 2):
            try:
                return _current().request(request, list(fds.values()))
            except ConnectionError:  # it was killed: its machines are dead, new ones get a new warden
                _retire()
                if attempt == 2:
                    raise MachineError("the process that starts machines ends as soon as it is asked") from None
    raise AssertionError("unreachable")


class _Warden:
    def __init__(self) -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.control, self.token = ours, 0
        with theirs:
            self.process = subprocess.Popen(
                [sys.executable, "-I", "-S", str(_SCRIPT), str(theirs.fileno()), str(os.getpid())],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                cwd="/",
                env={"PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8"},
                start_new_session=True,  # a Ctrl-C at the terminal is the harness' to handle
            )

    def request(self, request: dict[str, object], fds: list[int]) -> SpawnedProcess:
        self.token += 1
        message = json.dumps({"token": self.token, **request}).encode()
        socket.send_fds(self.control, [message], fds)
        deadline = time.monotonic() + SPAWN_TIMEOUT_S
        while True:
            self.control.settimeout(max(0.001, deadline - time.monotonic()))
            try:
                text, got, _, _ = socket.recv_fds(self.control, 65536, 4)
            except TimeoutError:
                raise MachineError(f"no process could be started within {SPAWN_TIMEOUT_S:.0f} s") from None
            if not text:
                raise ConnectionResetError
            reply = json.loads(text)
            if reply["token"] == self.token:
                break
            for fd in got:  # the answer to a request that was interrupted: nobody will use that process
                stray = SpawnedProcess(0, fd)
                stray.kill()
                stray.release()
        if "error" in reply:
            raise MachineError(f"can't start a machine: {reply['error']}")
        return SpawnedProcess(reply["pid"], got[0])

    def end(self) -> None:
        """Close the control socket: the warden kills what it has and ends."""
        self.control.close()
        try:
            self.process.wait(END_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


@dataclass
class _State:
    lock: threading.RLock
    warden: _Warden | None = None


_state = _State(threading.RLock())


def _current() -> _Warden:
    if _state.warden is None:
        if not sys.executable:
            raise MachineError("sys.executable is empty: machines need a Python interpreter to be started by")
        _state.warden = _Warden()
    return _state.warden


def _retire() -> None:
    warden, _state.warden = _state.warden, None
    if warden is not None:
        warden.end()


def _end_at_exit() -> None:
    with _state.lock:
        _retire()


def _forget_in_child() -> None:
    """A forked child has neither the parent's warden nor whatever lock another thread held at the fork."""
    _state.lock = threading.RLock()
    warden, _state.warden = _state.warden, None
    if warden is not None:
        warden.control.close()
        warden.process.returncode = 0  # not our child: keeps its destructor quiet


atexit.register(_end_at_exit)
os.register_at_fork(after_in_child=_forget_in_child)
