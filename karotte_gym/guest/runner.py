"""The ``run`` call: one program, no shell, as the student in its session or as root outside it."""

from __future__ import annotations

import os
import select
import time
from dataclasses import dataclass, field
from typing import Any

from .calls import Call, Handler, Machine, Refused
from .confine import merged, root_env
from .output import BoundedOutput
from .session import Session
from .spawning import Launcher, LauncherGone, Process
from .wire import MAX_BODY_BYTES

__all__ = ["METHODS"]

READ_BYTES = 256 * 1024
GRACE_S = 0.5  # output that is still in the pipes when the program has ended, or was killed
MAX_TIMEOUT_S = 86400.0


@dataclass
class _Request:
    argv: list[str]
    user: str
    cwd: str
    env: dict[str, str] | None
    timeout_s: float
    max_output_bytes: int


def _run(machine: Machine, call: Call) -> tuple[dict[str, Any], bytes]:
    request = _checked(call.params)
    started = time.monotonic()
    pipes = _Pipes()
    try:
        with _spawn(machine, request, pipes) as process:
            timed_out = not pipes.feed_and_read(process, call.body, started + request.timeout_s)
            if timed_out:  # it runs, so the number of its group is its own
                process.kill_group()
                process.kill()
            pipes.read_rest()
            code = process.wait(GRACE_S)
            note = process.failure
    finally:
        pipes.close()
    stdout, stderr = (pipe.output.result() for pipe in pipes.outputs)
    result = {
        "exit_code": None if timed_out else code,
        "timed_out": timed_out,
        "cut_bytes": sum(pipe.output.cut_bytes for pipe in pipes.outputs),
        "duration_s": time.monotonic() - started,
        "note": note,
        "stdout_bytes": len(stdout),
    }
    return result, stdout + stderr


def _checked(params: dict[str, Any]) -> _Request:
    argv, env, cwd = params.get("argv"), params.get("env"), params.get("cwd")
    user, timeout_s = params.get("user", "student"), params.get("timeout_s", 60.0)
    limit = params.get("max_output_bytes", MAX_BODY_BYTES)
    if not isinstance(argv, list) or not argv or not all(isinstance(word, str) and "\0" not in word for word in argv):
        raise Refused("bad-params", "argv must be a list of at least one text, without NUL")
    if user not in ("student", "root"):
        raise Refused("bad-params", f"user {user!r:.50} is neither student nor root")
    if env is not None and not (isinstance(env, dict) and all(_fine_pair(*pair) for pair in env.items())):
        raise Refused("bad-params", "env must map names to texts, without NUL and without = in a name")
    if cwd is not None and not (isinstance(cwd, str) and cwd and "\0" not in cwd):
        raise Refused("bad-params", "cwd must be a path")
    if isinstance(timeout_s, bool) or not isinstance(timeout_s, int | float) or not 0 < timeout_s <= MAX_TIMEOUT_S:
        raise Refused("bad-params", f"timeout_s must be more than 0 and at most {MAX_TIMEOUT_S:.0f}")
    if isinstance(limit, bool) or not isinstance(limit, int) or limit < 0:
        raise Refused("bad-params", "max_output_bytes must be a count of bytes")
    place = cwd or ("/workdir" if user == "student" else "/")
    # Two streams share one body; head, tail and the mark between them must fit.
    return _Request(argv, user, place, env, float(timeout_s), min(limit, MAX_BODY_BYTES) // 2 - 256)


def _fine_pair(name: object, value: object) -> bool:
    if not isinstance(name, str) or not isinstance(value, str):
        return False
    return bool(name) and "=" not in name and "\0" not in name + value


def _spawn(machine: Machine, request: _Request, pipes: _Pipes) -> Process:
    ends: dict[str, Any] = pipes.open(max(0, request.max_output_bytes))
    try:
        if request.user == "student":
            session: Session | None = machine.session
            if session is None:
                raise Refused("no-session", "no session is running")
            return session.spawn(request.argv, cwd=request.cwd, extra_env=request.env, **ends)
        launcher: Launcher = machine.state["launcher"]
        return launcher.spawn(request.argv, env=merged(root_env(), request.env), cwd=request.cwd, **ends)
    except LauncherGone as error:
        raise Refused("no-session", str(error)) from error
    finally:
        for fd in ends.values():
            os.close(fd)


@dataclass
class _Pipe:
    fd: int
    output: BoundedOutput
    open: bool = True


@dataclass
class _Pipes:
    """Our ends of a program's standard streams, all non-blocking: none of them can hold us up."""

    outputs: list[_Pipe] = field(default_factory=list)
    stdin: int = -1

    def open(self, limit_bytes: int) -> dict[str, int]:
        """Make them; returns the program's ends."""
        theirs_in, self.stdin = os.pipe2(os.O_CLOEXEC)
        ends = {"stdin": theirs_in}
        for name in ("stdout", "stderr"):
            fd, ends[name] = os.pipe2(os.O_CLOEXEC)
            self.outputs.append(_Pipe(fd, BoundedOutput(limit_bytes)))
        for fd in (self.stdin, *(pipe.fd for pipe in self.outputs)):
            os.set_blocking(fd, False)
        return ends

    def feed_and_read(self, process: Process, data: bytes, deadline: float) -> bool:
        """Until the program has ended; False when the deadline came first."""
        left = memoryview(data)
        while True:
            if not left:
                self._close_stdin()
            events = self._wait(process.pidfd, deadline)
            if process.pidfd in events:
                return True
            if self.stdin in events:
                left = left[_write(self.stdin, left) :]
            self._read(events)
            if time.monotonic() >= deadline:
                return False

    def read_rest(self) -> None:
        """What is still in the pipes. Somebody else may hold them open and write on: that is not waited for."""
        deadline = time.monotonic() + GRACE_S
        while any(pipe.open for pipe in self.outputs) and time.monotonic() < deadline:
            events = self._wait(-1, time.monotonic())
            if not events:
                return
            self._read(events)

    def _wait(self, pidfd: int, deadline: float) -> dict[int, int]:
        poller = select.poll()
        if pidfd >= 0:
            poller.register(pidfd, select.POLLIN)
        if self.stdin >= 0:
            poller.register(self.stdin, select.POLLOUT)
        for pipe in self.outputs:
            if pipe.open:
                poller.register(pipe.fd, select.POLLIN)
        return dict(poller.poll(max(0.0, deadline - time.monotonic()) * 1000))

    def _read(self, events: dict[int, int]) -> None:
        for pipe in self.outputs:
            if pipe.fd in events and pipe.open:
                chunk = os.read(pipe.fd, READ_BYTES)
                pipe.output.feed(chunk)
                pipe.open = bool(chunk)

    def _close_stdin(self) -> None:
        if self.stdin >= 0:
            os.close(self.stdin)
            self.stdin = -1

    def close(self) -> None:
        """Close what is open."""
        self._close_stdin()
        for pipe in self.outputs:
            os.close(pipe.fd)


def _write(fd: int, data: memoryview) -> int:
    """Bytes taken; all of them when nobody reads any more."""
    try:
        return os.write(fd, data[:READ_BYTES])
    except BlockingIOError:
        return 0
    except BrokenPipeError:
        return len(data)


METHODS: dict[str, Handler] = {"run": _run}
