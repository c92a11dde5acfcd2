"""What an author's tool returned, or how it failed, as a `ToolResult`: cleaned, bounded, and without the host's paths.

What a tool returns is made of what the student asked for and what its machine said, so it is no more trusted than the
output of a command.
"""

from __future__ import annotations

import collections
import json
import re
import threading
import traceback
import warnings
from dataclasses import replace
from pathlib import Path

from pydantic_core import PydanticSerializationError, to_jsonable_python

from karotte_gym.sandbox.contract import CommandResult
from karotte_gym.spaces import MAX_OBSERVATION_CHARS
from karotte_gym.tool_results import ToolResult, command_result
from karotte_gym.tools.text import clean
from karotte_gym.transcript import bounded

__all__ = ["failed_result", "told", "warn_author", "warn_of_failure", "worded"]

MAX_MESSAGE_CHARS = 500  # of an exception, in the answer to the student
MAX_WARNED_CHARS = 1000
MAX_WARNINGS = 50  # for each file in one process
_told: collections.Counter[Path] = collections.Counter()
_told_lock = threading.Lock()
MAX_COUNTED_CHARS = 16 * 1024 * 1024  # a longer text is cut before it is cleaned
# A path of the host's tells a student where it is trained; those of its own machine may stay.
_HOST_PATH = re.compile(r"(?<![\w:/.<])/(?!workdir\b)[\w.+@-]+(?:/[\w.+@ -]*[\w.+@-])*")


def worded(value: object, max_chars: int) -> ToolResult:
    """The result of a tool that returned `value`: text, a command's result, a `ToolResult` or anything JSON can say.

    TypeError or ValueError when JSON can't say it.
    """
    if isinstance(value, CommandResult):
        value = command_result(value)
    if isinstance(value, ToolResult):
        shown, cut = _text(value.text, max_chars)
        return replace(value, text=shown, truncated=value.truncated or cut, bytes_out=value.bytes_out or len(shown.encode()))
    if value is None or isinstance(value, str):
        return told(value or "", max_chars)
    try:
        text = json.dumps(to_jsonable_python(value), ensure_ascii=False, allow_nan=False)
    except PydanticSerializationError as error:
        raise TypeError(f"it returned {type(value).__name__}, which is neither text nor JSON: {error}") from error
    return told(text, max_chars)


def told(text: str, max_chars: int) -> ToolResult:
    """A text of a tool that did what it was asked."""
    shown, cut = _text(text, max_chars)
    return ToolResult(shown, exit_code=0, truncated=cut, bytes_out=len(text.encode("utf-8", "replace")))


def failed_result(name: str, error: BaseException) -> ToolResult:
    """For the student: the kind of failure and its message in a line, without a traceback."""
    message = _HOST_PATH.sub("<path>", bounded(_message(error).strip(), MAX_MESSAGE_CHARS)).replace("\n", " ")
    text = clean(f"error: {name} failed: {type(error).__name__}{': ' + message if message else ''}".encode("utf-8", "replace"))
    return ToolResult(text, exit_code=1, failed=True, bytes_out=len(text.encode()))


def warn_of_failure(name: str, error: BaseException, file: Path) -> None:
    """A warning with the line of the tool's file that failed."""
    frames = traceback.extract_tb(error.__traceback__)
    line = next((frame.lineno for frame in reversed(frames) if frame.filename == str(file)), None)
    place = f"{file}" if line is None else f"{file}:{line}"
    sentence = clean(f"{type(error).__name__}: {_message(error)}"[:MAX_WARNED_CHARS].encode("utf-8", "replace"))
    warn_author(file, f"{place}: the tool {name} failed: {sentence}")


def warn_author(file: Path, sentence: str) -> None:
    """A RuntimeWarning, the first few times for each file.

    Python remembers every text that it warned of, and a student can make a tool fail in a new way a million times.
    """
    with _told_lock:
        _told[file] += 1
        count = _told[file]
    if count > MAX_WARNINGS:
        return
    more = " (further failures are in the transcripts alone)" if count == MAX_WARNINGS else ""
    warnings.warn(f"{sentence}{more}", RuntimeWarning, stacklevel=2)


def _message(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:  # an exception's own text may raise as well; its kind is enough then
        return ""


def _text(text: str, max_chars: int) -> tuple[str, bool]:
    limit = min(max_chars, MAX_OBSERVATION_CHARS)
    shown = clean(bounded(text, MAX_COUNTED_CHARS).encode("utf-8", "replace"))
    return bounded(shown, limit), len(shown) > limit
