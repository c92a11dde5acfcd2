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
from dataclasses import replace
from pathlib import Path
from typing import Any

from pydantic_core import PydanticSerializationError, to_jsonable_python

from karotte_gym.bounded_text import bounded
from karotte_gym.sandbox.contract import CommandResult
from karotte_gym.spaces import MAX_OBSERVATION_CHARS
from karotte_gym.tool_results import ToolResult, command_result
from karotte_gym.tools.pictures import ImagePart
from karotte_gym.tools.text import clean
from karotte_gym.warned import warn

__all__ = ["failed_result", "message_of", "told", "warn_author", "warn_of_failure", "worded"]

MAX_MESSAGE_CHARS = 500  # of an exception, in the answer to the student
MAX_WARNED_CHARS = 1000
MAX_WARNINGS = 50  # for each file in one process
_told: collections.Counter[Path] = collections.Counter()
_told_lock = threading.Lock()
MAX_NUMBER = 2**53  # whole numbers up to here survive every reader of JSON
MAX_COUNTED_CHARS = 16 * 1024 * 1024  # a longer text is cut before it is cleaned
# A path of the host's tells a student where it is trained; those of its own machine may stay.
_HOST_PATH = re.compile(r"(?:(?i:file)://[\w.-]*|(?<![\w/.<]))/(?!workdir\b)[\w.+@-]+(?:/[\w.+@ -]*[\w.+@-])*")


def worded(value: object, max_chars: int) -> ToolResult:
    """The result of a tool that returned `value`: text, a command's result, a `ToolResult` or anything JSON can say.

    TypeError or ValueError when JSON can't say it, or when a field of the result is not what its type says.
    """
    if isinstance(value, CommandResult):
        value = command_result(value)
    if isinstance(value, ToolResult):
        value = _checked(value)
        shown, cut = _text(value.text, max_chars)
        return replace(value, text=shown, truncated=value.truncated or cut, bytes_out=value.bytes_out or _size(value.text))
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
    return ToolResult(shown, exit_code=0, truncated=cut, bytes_out=_size(text))


def failed_result(name: str, error: BaseException) -> ToolResult:
    """For the student: the kind of failure and its message in a line, without a traceback."""
    message = _HOST_PATH.sub("<path>", bounded(message_of(error).strip(), MAX_MESSAGE_CHARS)).replace("\n", " ")
    text = clean(f"error: {name} failed: {type(error).__name__}{': ' + message if message else ''}".encode("utf-8", "replace"))
    return ToolResult(text, exit_code=1, failed=True, bytes_out=len(text.encode()))


def warn_of_failure(name: str, error: BaseException, file: Path) -> None:
    """A warning with the line of the tool's file that failed."""
    frames = traceback.extract_tb(error.__traceback__)
    line = next((frame.lineno for frame in reversed(frames) if frame.filename == str(file)), None)
    place = f"{file}" if line is None else f"{file}:{line}"
    sentence = clean(f"{type(error).__name__}: {message_of(error)}"[:MAX_WARNED_CHARS].encode("utf-8", "replace"))
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
    warn(f"{sentence}{more}")


def message_of(error: BaseException) -> str:
    """Its own text; "" when that raises as well, SystemExit included: its kind is enough then."""
    try:
        return str(error)
    except KeyboardInterrupt:
        raise
    except BaseException:
        return ""


def _checked(result: ToolResult) -> ToolResult:
    """Its fields as the record, `info` and the chat take them. Python lets an author's code put anything into them."""
    code = result.exit_code
    fits = {
        "text": isinstance(result.text, str),
        "exit_code": code is None or (_whole(code) and abs(code) <= MAX_NUMBER),
        "duration_s": _number(result.duration_s) and 0 <= result.duration_s <= MAX_NUMBER,  # NaN is neither
        "bytes_out": _whole(result.bytes_out) and 0 <= result.bytes_out <= MAX_NUMBER,
        **{name: isinstance(getattr(result, name), bool) for name in ("timed_out", "truncated", "failed")},
        "images": isinstance(result.images, tuple | list) and all(_picture(image) for image in result.images),
    }
    for name, fine in fits.items():
        if not fine:
            raise TypeError(f"the {name} of its result can't be such a {type(getattr(result, name)).__name__}")
    return replace(result, duration_s=float(result.duration_s), images=tuple(result.images))


def _whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _number(value: Any) -> bool:
    return _whole(value) or isinstance(value, float)


def _picture(image: Any) -> bool:
    if not isinstance(image, ImagePart):
        return False
    texts = isinstance(image.kind, str) and isinstance(image.media_type, str)
    return texts and _whole(image.width) and _whole(image.height) and isinstance(image.data, bytes)


def _size(text: str) -> int:
    return len(text.encode("utf-8", "replace"))


def _text(text: str, max_chars: int) -> tuple[str, bool]:
    limit = min(max_chars, MAX_OBSERVATION_CHARS)
    shown = clean(bounded(text, MAX_COUNTED_CHARS).encode("utf-8", "replace"))
    return bounded(shown, limit), len(shown) > limit
