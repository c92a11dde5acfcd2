"""The scoring script's end of `confined`: starts a confined program, proves that it and all its children have ended.

Standard library only, imported by `karotte_grading` alone.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from typing import Any

__all__ = ["Confined", "Group"]

CONFINED = os.path.join(os.path.dirname(os.path.abspath(__file__)), "confined.py")
GROUP = "/sys/fs/cgroup/grading"
MAX_REQUEST_BYTES = 128 * 1024
REPORT_BYTES = 4096
SETUP_TIMEOUT_S = 60.0  # takes a fraction of a second, also emulated; so does the end of a killed program

_lock = threading.Lock()
_channel: socket.socket | None = None


class Group:
    """A control group beside the script's own one: bounds a run's memory and processes, and counts its time."""

    def __init__(self, path: str):
        self.path = path

    @classmethod
    def make(cls, memory_bytes: int, process_count: int) -> Group | None:
        """None where the agent uses no control groups."""
        with open("/proc/self/cgroup", encoding="ascii") as stream:
            if "0::/grading/script\n" not in stream.read():
                return None
        group = cls(f"{GROUP}/run-{os.getpid()}-{time.monotonic_ns()}")
        os.mkdir(group.path)
        for name, value in (("memory.max", memory_bytes), ("pids.max", process_count), ("memory.oom.group", 1)):
            with open(f"{group.path}/{name}", "w", encoding="ascii") as stream:
                stream.write(str(value))
        return group

    def cpu_s(self) -> float:
        """Processor time of everything that ever ran in it."""
        with open(f"{self.path}/cpu.stat", encoding="ascii") as stream:
            return int(stream.readline().split()[1]) / 1e6  # usage_usec comes first

    def freeze(self) -> None:
        """Stop all its processes, which can't notice; returns when the last one stands still."""
        self._switch(1)

    def thaw(self) -> None:
        """Let them go on."""
        self._switch(0)

    def _switch(self, frozen: int) -> None:
        with open(f"{self.path}/cgroup.freeze", "w", encoding="ascii") as stream:
            stream.write(str(frozen))
        deadline = time.monotonic() + SETUP_TIMEOUT_S
        while f"frozen {frozen}\n" not in self._events():
            if time.monotonic() > deadline:
                raise RuntimeError(f"{self.path} can't be {'frozen' if frozen else 'thawed'}")
            time.sleep(0.0005)

    def _events(self) -> str:
        with open(f"{self.path}/cgroup.events", encoding="ascii") as stream:
            return stream.read()

    def remove(self) -> None:
        """The kernel lets go of a group a moment after its last process."""
        for _ in range(500):
            try:
                os.rmdir(self.path)
                return
            except OSError:
                time.sleep(0.01)
        raise RuntimeError(f"{self.path} still holds processes of the submitted code")


class Confined:
    """A program that is about to start, with our ends of its pipes. `kill` returns when nothing of it is left."""

    def __init__(self, config: dict[str, Any], group: Group | None):
        self.group = group
        self._resources = contextlib.ExitStack()
        if group is not None:
            self._resources.callback(group.remove)
        try:
            self._start({**config, "group": None if group is None else group.path})
        except BaseException:
            self._resources.close()
            raise

    def exit_code(self) -> int:
        """As reported when it ended by itself. What is no such report is passed over; RuntimeError when none comes."""
        said = b""
        while (report := self._report.recv(REPORT_BYTES)) != b"":
            if ended := re.fullmatch(rb"exit (\d{1,3})", report):
                return int(ended[1])
            said = report
        raise RuntimeError(f"the process that confines submitted code was ended: {said!r}")

    def kill(self) -> None:
        """Kill PID 1 of its namespace; the process above ends when the kernel has ended all below. Idempotent."""
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(self._init, signal.SIGKILL)
        if not select.select([self._confiner], [], [], SETUP_TIMEOUT_S)[0]:
            raise RuntimeError("submitted code can't be ended")

    def close(self) -> None:
        """Give everything back."""
        self._resources.close()

    def _start(self, config: dict[str, Any]) -> None:
        theirs = []
        for name, ours in (("stdin", 1), ("stdout", 0), ("stderr", 0)):
            pipe = os.pipe()
            setattr(self, name, pipe[ours])
            self._resources.callback(_close_once, self, name)
            theirs.append(pipe[1 - ours])
        self._report, their_report = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._resources.enter_context(self._report)
        self._report.settimeout(SETUP_TIMEOUT_S)
        with their_report:
            try:
                _request(json.dumps(config).encode(), [*theirs, their_report.fileno()])
            finally:
                for fd in theirs:
                    os.close(fd)
        report, fds, _, _ = socket.recv_fds(self._report, REPORT_BYTES, 2)
        if report != b"started":
            raise _not_confined(report)
        self._init, self._confiner = fds
        for fd in fds:
            os.set_inheritable(fd, False)
            self._resources.callback(os.close, fd)
        self._resources.callback(self.kill)
        report = self._report.recv(REPORT_BYTES)
        if report != b"ready":
            raise _not_confined(report)

    stdin: int
    stdout: int
    stderr: int


def _close_once(confined: Confined, name: str) -> None:
    fd = getattr(confined, name)
    if fd >= 0:
        os.close(fd)
        setattr(confined, name, -1)


def _not_confined(report: bytes) -> RuntimeError:
    said = report.decode("utf-8", "replace") or "its confiner ended"
    return RuntimeError(f"submitted code could not be confined and did not run: {said}")


def _request(request: bytes, fds: list[int]) -> None:
    if len(request) > MAX_REQUEST_BYTES:
        raise ValueError(f"argv and env have {len(request)} bytes, {MAX_REQUEST_BYTES} is the most")
    with _lock:
        socket.send_fds(_server(), [request], fds)


def _server() -> socket.socket:
    """The channel to the confining process of this script, which is started with the first program."""
    global _channel
    if _channel is None:
        _channel, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        _channel.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 2 * MAX_REQUEST_BYTES)
        with theirs:
            subprocess.Popen(
                [sys.executable, "-I", "-S", "-B", CONFINED, str(theirs.fileno())],
                stdin=subprocess.DEVNULL,
                env={"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8"},
                cwd="/",
                pass_fds=[theirs.fileno()],
                start_new_session=True,
            )
    return _channel
