"""Runs an author's tool inside the student's machine, as the student, by the machine's own isolated Python.

For tools that work hard on what the student wrote: whatever that does to the tool happens where the student is
anyway. The price is that the student can tamper with it: it may signal the tool's process, fill its memory or change
what it reads. So a result of such a tool is for the student and never evidence, and no secret belongs in its file.
The file is sent with each call and never stored, so that there is nothing to replace.
"""

from __future__ import annotations

import json
from functools import cached_property
from importlib.util import decode_source
from pathlib import Path
from typing import Any

from karotte_gym.errors import CallRefused, ConfigError
from karotte_gym.sandbox.contract import CommandResult
from karotte_gym.tool_results import ToolResult, error_result
from karotte_gym.tools.call import ToolCall
from karotte_gym.tools.definition import CallSite, Definition
from karotte_gym.tools.mark import Marks, time_limit_s
from karotte_gym.tools.own_arguments import Signature
from karotte_gym.tools.own_result import told, warn_author
from karotte_gym.tools.text import clean
from karotte_gym.warned import warn

__all__ = ["MAX_SOURCE_BYTES", "MachineTool"]

PYTHON = "/usr/bin/python3"
MAX_SOURCE_BYTES = 512 * 1024  # with the arguments it has to fit one frame to the machine
MAX_RESULT_BYTES = 1024 * 1024
MAX_ERROR_CHARS = 500
_RUNNER = Path(__file__).with_name("in_machine.py")


class MachineTool(Definition):
    """A function whose file is run in the machine."""

    def __init__(self, name: str, signature: Signature, marks: Marks, file: Path):
        super().__init__(name, signature.arguments)
        self.file = file
        self.marks = marks
        self._arguments = signature.arguments
        self._source = _text_of(file)
        if len(self._source.encode()) > MAX_SOURCE_BYTES:
            raise ConfigError(f"{file}: what runs in the machine may have {MAX_SOURCE_BYTES} bytes; move data to student_data/")

    @cached_property
    def _argv(self) -> list[str]:
        return [PYTHON, "-I", "-c", _RUNNER.read_text(encoding="utf-8")]

    def run(self, call: ToolCall, site: CallSite) -> ToolResult:
        """Run it within its time limit, which the machine holds and which ends it."""
        facts = {"name": self.name, "file": f"{self.name}.py", "source": self._source, "arguments": call.arguments}
        timeout_s = time_limit_s(self.marks, site.limits)
        stdin = json.dumps(facts).encode()
        try:
            done = site.sandbox.run(self._argv, stdin=stdin, timeout_s=timeout_s, max_output_bytes=MAX_RESULT_BYTES)
        except CallRefused as error:
            if error.kind == "internal":
                warn(f"the agent failed in {self.name}: {error}")
            return error_result(f"error: {self.name} could not be run: {clean(str(error).encode('utf-8', 'replace'))}")
        return self._read(done, site.limits.max_output_bytes)

    def _read(self, done: CommandResult, max_chars: int) -> ToolResult:
        """Every byte of it may be the student's: what is no answer is told so, and nothing here raises."""
        duration_s = float(done.duration_s)
        if done.timed_out:
            text = f"[{self.name} was ended after {duration_s:.1f} s]"
            return ToolResult(text, timed_out=True, failed=True, duration_s=duration_s, bytes_out=len(text))
        try:
            answer: Any = json.loads(done.stdout)
        except (ValueError, RecursionError):
            answer = None
        if isinstance(answer, dict) and "result" in answer:
            result = answer["result"]
            worded = told(result if isinstance(result, str) else _as_json(result), max_chars)
            return ToolResult(worded.text, 0, False, worded.truncated, duration_s, worded.bytes_out)
        return self._failure(done, answer, duration_s)

    def _failure(self, done: CommandResult, answer: Any, duration_s: float) -> ToolResult:
        said = answer.get("error") if isinstance(answer, dict) else None
        if not isinstance(said, str):
            size = len(done.stdout) + done.cut_bytes
            said = f"it gave no result (exit code {done.exit_code}, {size} bytes of at most {MAX_RESULT_BYTES})"
        sentence = clean(said[:MAX_ERROR_CHARS].encode("utf-8", "replace")).replace("\n", " ")
        warn_author(self.file, f"{self.file}: the tool {self.name} failed in the machine: {sentence}")
        text = f"error: {self.name} failed: {sentence}"
        return ToolResult(text, 1, failed=True, duration_s=duration_s, bytes_out=len(text.encode()))


def _text_of(file: Path) -> str:
    """As Python reads it: with a byte order mark, or in the encoding that its first lines name."""
    try:
        return decode_source(file.read_bytes())
    except (SyntaxError, UnicodeDecodeError) as error:
        line = file.read_bytes()[: getattr(error, "start", 0)].count(b"\n") + 1
        raise ConfigError(f"{file}:{line}: what runs in the machine must be text: {error}") from error


def _as_json(value: Any) -> str:
    return "" if value is None else json.dumps(value, ensure_ascii=False)
