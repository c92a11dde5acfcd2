"""Runs an author's tool on the host, in a thread of its own that is waited for no longer than the tool's time limit.

The code is the author's and trusted; its arguments are the student's. So it gets what fits its types, acts on the
machine with the student's rights, and its failures are answers. A thread can't be killed: after the time limit its
handle on the machine is revoked and it is left to end by itself. Neither does a limit help against a computation that
never lets go of the interpreter, such as a regular expression that backtracks on a text of the student's: a tool that
works hard on what the student wrote belongs in the machine (`own_machine`).
"""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError

from karotte_gym.errors import ConfigError, MachineDied, MachineError
from karotte_gym.scoring import StudentMisbehavior
from karotte_gym.tool_results import ToolResult
from karotte_gym.tools.call import ToolCall
from karotte_gym.tools.definition import CallSite, Configuration, Definition
from karotte_gym.tools.mark import Marks, time_limit_s
from karotte_gym.tools.own_arguments import Signature
from karotte_gym.tools.own_result import failed_result, warn_author, warn_of_failure, worded
from karotte_gym.tools.student_sandbox import Revoked, StudentSandbox

__all__ = ["HostTool"]

_PASSED_ON = (StudentMisbehavior, MachineDied, MachineError, KeyboardInterrupt)


class HostTool(Definition):
    """A function, or a class of which each episode has an instance of its own."""

    def __init__(self, name: str, made: Callable[..., Any], signature: Signature, marks: Marks, file: Path):
        super().__init__(name, signature.arguments)
        self.file = file
        self.marks = marks
        self._made = made
        self._signature = signature
        self._is_class = inspect.isclass(made)
        self._config_class: type[BaseModel] | None = getattr(made, "Config", None) if self._is_class else None
        self._config: BaseModel | None = None
        self._function: Callable[..., Any] | None = None if self._is_class else made

    def configure(self, configuration: Configuration | None) -> None:
        """A class with a ``Config`` takes a configuration or its defaults; nothing else takes any."""
        if self._config_class is None:
            if configuration is not None:
                raise ConfigError(f"{self.file}: {self.name} takes no configuration: make it a class with a class Config in it")
            return
        if isinstance(configuration, BaseModel) and not isinstance(configuration, self._config_class):
            raise ConfigError(f"configure_tools: {self.name!r} takes its own Config, not a {type(configuration).__name__}")
        try:
            self._config = self._config_class.model_validate({} if configuration is None else configuration)
        except ValidationError as error:
            first = error.errors()[0]
            where = ".".join(str(part) for part in first["loc"])
            raise ConfigError(f"configure_tools: {self.name!r}: {where}: {first['msg']} ({self.file})") from error

    def begin_episode(self) -> None:
        """A new instance. ConfigError when the author's constructor raises."""
        if not self._is_class:
            return
        try:
            self._function = self._made(self._config) if self._config_class is not None else self._made()
        except Exception as error:
            raise ConfigError(f"{self.file}: {self.name} can't be made: {type(error).__name__}: {error}") from error

    def run(self, call: ToolCall, site: CallSite) -> ToolResult:
        """Run it within its time limit."""
        timeout_s = time_limit_s(self.marks, site.limits)
        sandbox = StudentSandbox(site.sandbox, site.limits, timeout_s)
        try:
            attempt = _Attempt(lambda: self._call(call, sandbox, site))
            finished = attempt.finished_within(timeout_s)
        except BaseException:  # Ctrl-C: the tool must not share the machine with the next call
            sandbox.revoke()
            raise
        if not finished or isinstance(attempt.error, Revoked):  # the handle's clock may be the first to see the end
            sandbox.revoke()
            warn_author(self.file, f"{self.file}: the tool {self.name} took over {timeout_s:g} s")
            text = f"[{self.name} was given up after {timeout_s:g} s]"
            return ToolResult(text, timed_out=True, failed=True, duration_s=timeout_s, bytes_out=len(text))
        return attempt.result() if attempt.error is None else self._failure(attempt.error)

    def _call(self, call: ToolCall, sandbox: StudentSandbox, site: CallSite) -> ToolResult:
        assert self._function is not None, "begin_episode comes before run"
        filled = {"sandbox": sandbox, "context": site.context}
        values = self._signature.arguments.from_json(call.arguments).values()
        values |= {parameter: filled[kind] for parameter, kind in self._signature.filled.items()}
        return worded(self._function(**values), site.limits.max_output_bytes)

    def _failure(self, error: BaseException) -> ToolResult:
        if isinstance(error, _PASSED_ON):
            raise error
        warn_of_failure(self.name, error, self.file)
        return failed_result(self.name, error)


class _Attempt:
    """One run of a function in a thread of its own."""

    def __init__(self, function: Callable[[], ToolResult]):
        self.error: BaseException | None = None
        self._result: ToolResult | None = None
        self._function = function
        self._done = threading.Event()  # not `Thread.join`: one that is interrupted takes the thread for ended
        threading.Thread(target=self._run, name="karotte-tool", daemon=True).start()

    def finished_within(self, timeout_s: float) -> bool:
        return self._done.wait(timeout_s)

    def result(self) -> ToolResult:
        assert self._result is not None
        return self._result

    def _run(self) -> None:
        try:
            self._result = self._function()
        except BaseException as error:  # handed over to the thread that waits
            self.error = error
        finally:
            self._done.set()
