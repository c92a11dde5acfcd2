"""`StudentSandbox`: the machine as an author's tool gets it. It has the student's rights and no others.

A tool acts on what a student asked for. With root's handle a tool that copies "the file at `path`" would read any file
of the machine for a student that names it, or follow a link of the student's to one. So every method here acts as the
student, `as_root` has to be written down to be used, and `karotte-gym check tools` shows where it is.
"""

from __future__ import annotations

import functools
import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any, cast

from karotte_gym.config import Limits
from karotte_gym.sandbox.contract import CommandResult, Sandbox

__all__ = ["Revoked", "StudentSandbox"]

DEFAULT_TIMEOUT_S = 60.0
MIN_TIMEOUT_S = 0.1  # of what is begun in the last moment
MAX_GET_BYTES = 10 * 1024 * 1024


class Revoked(Exception):
    """The call that this handle was for is over."""

    def __init__(self) -> None:
        super().__init__("the tool's time is up; its handle on the machine is not valid any more")


class StudentSandbox:
    """For the time of one call: no command outlasts it, and a tool that goes on finds the handle revoked."""

    def __init__(self, sandbox: Sandbox, limits: Limits, timeout_s: float):
        self._sandbox = sandbox
        self._limits = limits
        self._deadline = time.monotonic() + timeout_s
        self._busy = threading.RLock()
        self._revoked = False

    def bash(self, command: str, *, timeout_s: float | None = None, restart: bool = False) -> CommandResult:
        """Run a command in the student's persistent shell, whose directory and variables it shares."""
        asked = self._limits.command_timeout_s if timeout_s is None else timeout_s
        return self._ask("bash", command, timeout_s=self._within(asked), restart=restart)

    def run(
        self,
        argv: Sequence[str],
        *,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        stdin: bytes = b"",
        timeout_s: float = DEFAULT_TIMEOUT_S,
        max_output_bytes: int = 1024 * 1024,
    ) -> CommandResult:
        """Run one program (absolute path) without a shell; its stdout and stderr are kept apart."""
        facts: dict[str, Any] = {"cwd": cwd, "env": env, "stdin": stdin, "max_output_bytes": max_output_bytes}
        return self._ask("run", argv, user="student", timeout_s=self._within(timeout_s), **facts)

    def view_lines(self, path: str, start: int, end: int) -> CommandResult:
        """Lines `start`..`end` (from 1, inclusive) of a regular file."""
        return self._ask("view_lines", path, start, end)

    def replace_in_file(self, path: str, old: str, new: str, *, all: bool = False) -> CommandResult:
        """Replace text in a regular file."""
        return self._ask("replace_in_file", path, old, new, all=all)

    def write_file(self, path: str, content: str) -> CommandResult:
        """Make `content` the whole of a regular file. exit_code 1: output says why not."""
        return self._ask("write_file", path, content)

    def read_file(self, path: str, *, max_bytes: int = MAX_GET_BYTES) -> tuple[CommandResult, bytes]:
        """A regular file's bytes, `max_bytes` or none. exit_code 1: output says why not."""
        return self._ask("read_file", path, max_bytes=max_bytes)

    @property
    def as_root(self) -> Sandbox:
        """Root's handle. What the student can choose must not decide what is done with it."""
        return cast(Sandbox, _Guarded(self))

    def revoke(self) -> None:
        """Lets nothing more begin, and waits for what runs in the machine, which ends by its own timeout."""
        self._revoked = True
        with self._busy:
            pass

    def _within(self, timeout_s: float) -> float:
        return min(timeout_s, max(self._deadline - time.monotonic(), MIN_TIMEOUT_S))

    def _ask(self, method: str, *args: Any, **kwargs: Any) -> Any:
        with self._busy:
            if self._revoked or time.monotonic() >= self._deadline:
                raise Revoked
            return getattr(self._sandbox, method)(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        if hasattr(Sandbox, name):
            raise AttributeError(f"{name} acts as root: write sandbox.as_root.{name}, and trust nothing that the student chose")
        raise AttributeError(f"StudentSandbox has no {name!r}")


class _Guarded:
    """Root's handle, revoked together with the student's."""

    def __init__(self, owner: StudentSandbox):
        self._owner = owner

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._owner._sandbox, name)
        return functools.partial(self._owner._ask, name) if callable(value) else value
