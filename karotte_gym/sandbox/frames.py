"""The host's reader of frames. It trusts nothing: a student who took over its machine may have written every byte.

Lengths are checked before anything of that length is waited for, so memory stays below one frame. The header must be
one JSON object: no duplicate keys, no NaN, no number of a thousand digits, no nesting that would exhaust a stack.
"""

from __future__ import annotations

import re
from typing import Any

from karotte_gym.guest.wire import MAX_BODY_BYTES, MAX_HEADER_BYTES, PREFIX
from karotte_gym.strict_json import strict_json

__all__ = ["Frame", "FrameError", "split"]

MAX_DEPTH = 16  # our deepest header has four levels
MAX_INT_DIGITS = 20  # 2**64 has twenty
# A text that does not end is a token as well: otherwise each of its quotes would be looked behind, to the end.
_TOKENS = re.compile(rb'"(?:[^"\\]|\\.)*+"?|[\[{\]}]', re.DOTALL)

Frame = tuple[dict[str, Any], bytes]


class FrameError(ValueError):
    """The bytes are no frame."""


def split(data: bytes) -> tuple[list[Frame], bytes]:
    """The whole frames at the start of `data`, and what is left over. FrameError when it can become no frame."""
    frames: list[Frame] = []
    start = 0
    while len(data) - start >= PREFIX.size:
        header_bytes, body_bytes = PREFIX.unpack_from(data, start)
        if not 2 <= header_bytes <= MAX_HEADER_BYTES or body_bytes > MAX_BODY_BYTES:
            raise FrameError(f"a frame of {header_bytes} and {body_bytes} bytes")
        middle = start + PREFIX.size + header_bytes
        if len(data) < middle + body_bytes:
            break
        frames.append((_header(data[start + PREFIX.size : middle]), data[middle : middle + body_bytes]))
        start = middle + body_bytes
    return frames, data[start:]


def _header(text: bytes) -> dict[str, Any]:
    _check_depth(text)
    try:
        header = strict_json(text, parse_int=_integer)
    except (ValueError, RecursionError) as error:
        raise FrameError(f"a header that is no JSON: {str(error)[:200]!r}") from None
    if not isinstance(header, dict):
        raise FrameError("a header that is no object")
    return header


def _check_depth(text: bytes) -> None:
    if text.count(b"[") + text.count(b"{") <= MAX_DEPTH:
        return
    depth = 0
    for token in _TOKENS.finditer(text):
        byte = token[0][:1]
        depth += 1 if byte in b"[{" else -1 if byte in b"]}" else 0
        if depth > MAX_DEPTH:
            raise FrameError("a header nested too deeply")


def _integer(text: str) -> int:
    if len(text) > MAX_INT_DIGITS:
        raise FrameError("a number of too many digits")
    return int(text)
