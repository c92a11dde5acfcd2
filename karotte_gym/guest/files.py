"""The student's file tools: the ``view_lines``, ``replace_in_file``, ``write_file`` and ``read_file`` calls.

The work is done by a module each (`file_view`, `file_replace`, `file_write`, `file_read`) in a forked process that has
the student's rights, limits and view of the file system. A file tool that reads as root would be an oracle for everything
that the student may not read.
"""

from __future__ import annotations

import struct
import time
from collections.abc import Callable
from typing import Any

from .calls import Call, Handler, Machine, Refused
from .file_open import FileProblem
from .file_read import read_file
from .file_replace import replace_in_file
from .file_text import pictured
from .file_view import view_lines
from .file_write import write_file
from .shell import shell_of
from .spawning import CallFailed, LauncherGone
from .wire import MAX_BODY_BYTES

__all__ = ["METHODS", "answered"]

TIMEOUT_S = 10.0
MAX_ANSWER_BYTES = MAX_BODY_BYTES - 4096
MAX_LINE_NUMBER = 1_000_000_000
MAX_TEXT_BYTES = 1 << 20
MAX_READ_BYTES = 10 << 20  # in the agent's memory, which is locked; a picture of a screen has a tenth of it
_HEADER = struct.Struct(">BQ")  # exit code, bytes left out


def answered(function: Callable[..., Any], *args: Any) -> bytes:
    """Runs in the student's process: call `function` and pack what it says, or why it does not."""
    try:
        result = function(*args)
    except FileProblem as problem:
        return _HEADER.pack(1, 0) + pictured(str(problem).encode("utf-8", "replace")) + b"\n"
    text, left_out = result if isinstance(result, tuple) else (result, 0)
    return _HEADER.pack(0, left_out) + text


def _view(machine: Machine, call: Call) -> tuple[dict[str, Any], bytes]:
    path, start, end = _bytes(call, "path"), _line(call, "start"), _line(call, "end")
    if end < start:
        raise Refused("bad-params", "end must not be before start")
    limit_bytes = call.params.get("max_output_bytes", 65536)
    if isinstance(limit_bytes, bool) or not isinstance(limit_bytes, int) or limit_bytes < 1:
        raise Refused("bad-params", f"max_output_bytes {limit_bytes!r:.50} must be a positive whole number")
    return _as_student(machine, view_lines, path, start, end, min(limit_bytes, MAX_ANSWER_BYTES // 2))


def _replace(machine: Machine, call: Call) -> tuple[dict[str, Any], bytes]:
    path, old, new = (_bytes(call, name) for name in ("path", "old", "new"))
    every = call.params.get("all", False)
    if not isinstance(every, bool):
        raise Refused("bad-params", "all must be true or false")
    return _as_student(machine, replace_in_file, path, old, new, every)


def _write(machine: Machine, call: Call) -> tuple[dict[str, Any], bytes]:
    return _as_student(machine, write_file, _bytes(call, "path"), call.body)


def _read(machine: Machine, call: Call) -> tuple[dict[str, Any], bytes]:
    """The content goes out in parts; `exit_code` 1 and a body that says why when there is none."""
    limit_bytes = call.params.get("max_bytes")
    if isinstance(limit_bytes, bool) or not isinstance(limit_bytes, int) or not 0 < limit_bytes <= MAX_READ_BYTES:
        raise Refused("bad-params", f"max_bytes {limit_bytes!r:.50} must be from 1 to {MAX_READ_BYTES}")
    facts, data = _as_student(machine, read_file, _bytes(call, "path"), limit_bytes, max_bytes=limit_bytes)
    if facts["exit_code"]:
        return {**facts, "size": 0}, data
    for offset in range(0, len(data), MAX_BODY_BYTES):
        call.part({"offset": offset}, data[offset : offset + MAX_BODY_BYTES])
    return {**facts, "size": len(data)}, b""


def _as_student(
    machine: Machine, function: Callable[..., Any], path: bytes, *args: Any, max_bytes: int = MAX_ANSWER_BYTES
) -> tuple[dict[str, Any], bytes]:
    shell = shell_of(machine)
    began = time.monotonic()
    exit_code, left_out = 1, 0
    try:
        data = machine.session.call_as_student(
            answered,
            function,
            path,
            shell.inner_pid(),
            *args,
            timeout_s=TIMEOUT_S,
            max_bytes=max_bytes + _HEADER.size,
            first=True,  # or a build with many jobs would leave it no time
        )
        exit_code, left_out = _HEADER.unpack_from(data)
        text = data[_HEADER.size :]
    except TimeoutError:
        text = b"the file tool took longer than %d s and was ended\n" % TIMEOUT_S
    except OverflowError:
        text = b"the file tool's answer was too long\n"
    except CallFailed as error:
        text = b"the file tool failed: %s\n" % str(error).strip().rpartition("\n")[2].encode("utf-8", "replace")
    except (OSError, LauncherGone) as error:
        text = b"the file tool could not be started: %s\n" % str(error).encode("utf-8", "replace")
    duration_s = time.monotonic() - began
    facts = {"exit_code": exit_code, "timed_out": False, "cut_bytes": left_out, "duration_s": duration_s, "note": ""}
    return facts, text


def _bytes(call: Call, name: str) -> bytes:
    value = call.params.get(name)
    if not isinstance(value, str):
        raise Refused("bad-params", f"{name} must be text")
    try:
        data = value.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        raise Refused("bad-params", f"{name} contains half a character") from None
    if len(data) > MAX_TEXT_BYTES:
        raise Refused("bad-params", f"{name} is too long")
    return data


def _line(call: Call, name: str) -> int:
    value = call.params.get(name)
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= MAX_LINE_NUMBER:
        raise Refused("bad-params", f"{name} {value!r:.50} must be a line number from 1")
    return value


METHODS: dict[str, Handler] = {
    "view_lines": _view,
    "replace_in_file": _replace,
    "write_file": _write,
    "read_file": _read,
}
