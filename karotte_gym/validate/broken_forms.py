"""The broken submissions: bytes that no honest student hands in, and the right answer in forms that nobody asked for.

Noise must score 0. A right answer in another form is told apart by what it costs to let it pass: another encoding is
tolerance and may be meant (a warning), while an answer that is found twice, with bytes behind it or among others opens a
task to whoever hands in every guess at once (a failure). Half of an answer may earn half of the score, and must not earn
the whole. A task that means it says so in `accepted_forms`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from karotte_gym.validate import answer_shapes

__all__ = ["DIRECTORY", "NOISE", "QUICK", "RIGHT", "Form", "Rewritten"]

MIB = 1024 * 1024
DEPTH = 100_000
DIGITS = 1_000_000
LINES = 200


@dataclass(frozen=True, slots=True)
class Form:
    """One noise: the same bytes whatever the right answer is. `name` is for reports."""

    name: str
    content: bytes


@dataclass(frozen=True, slots=True)
class Rewritten:
    """One wrong form of the right answer. `make` gives None where there is no such form of these bytes.

    What is `partly_right` fails only when it earns as much as the right answer.
    """

    name: str
    make: Callable[[bytes], bytes | None]
    tolerable: bool
    partly_right: bool = False


NOISE = (
    Form("empty", b""),
    Form("one byte", b"x"),
    Form("one line end", b"\n"),
    Form("NULs", bytes(4096)),
    Form("10 MiB of zeros", bytes(10 * MIB)),
    Form("every byte", bytes(range(256)) * 16),
    Form("invalid UTF-8", b"\xff\xfe\x80\xc0\xaf \xed\xa0\x80 \xf5"),
    Form("deep JSON lists", b"[" * DEPTH),
    Form("deep JSON objects", b'{"a":' * DEPTH + b"1" + b"}" * DEPTH),
    Form("a number of a million digits", b"9" * DIGITS),
    Form("an infinite number", b"1e999\n"),
    Form("not a number", b"NaN\n"),
    Form("minus one", b"-1\n"),
    Form("JSON null", b"null\n"),
    Form("an empty JSON list", b"[]\n"),
    Form("an empty JSON object", b"{}\n"),
    Form("an empty JSON string", b'""\n'),
    Form("a JSON list of nothing", b"[[]]\n"),
    Form("zero", b"0\n"),
    Form("JSON of the wrong type", b'[true, {"": null}]\n'),
    Form("a score of its own", b'{"score": 1.0, "metadata": {}, "stop_task": false}\n'),
    Form("a line of one MiB", b"a" * MIB),
    Form("an unclosed quote", b"\"'(((\n"),
    Form("terminal escapes", b"\x1b[2J\x1b]0;x\x07\r\x08\n"),
)
DIRECTORY = "a directory in place of a file"  # and the reverse; made of no bytes
QUICK = (
    "empty",
    "every byte",
    "invalid UTF-8",
    "deep JSON lists",
    "not a number",
    "an empty JSON list",
)


def _as_text(content: bytes) -> str | None:
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError:
        return None


def _utf16(content: bytes) -> bytes | None:
    text = _as_text(content)
    return None if text is None else text.encode("utf-16")


def _quoted(content: bytes) -> bytes | None:
    return b'"' + content.strip() + b'"\n' if content.strip() else None


def _twice(content: bytes) -> bytes:
    return content + (b"" if content.endswith(b"\n") else b"\n") + content


def _among_noise(content: bytes) -> bytes:
    noise = b"".join(b"%d guess %d\n" % (7919 * number, number) for number in range(LINES))
    return noise + content + (b"" if content.endswith(b"\n") else b"\n") + noise


RIGHT = (
    Rewritten("byte-order-mark", lambda content: b"\xef\xbb\xbf" + content, tolerable=True),
    Rewritten("utf-16", _utf16, tolerable=True),
    Rewritten("quoted", _quoted, tolerable=True),
    Rewritten("trailing-nul", lambda content: content + b"\0", tolerable=True),
    Rewritten("trailing-bytes", lambda content: content + b"\xff\xfe\x00\x80 rest", tolerable=False),
    Rewritten("twice", _twice, tolerable=False),
    Rewritten("among-noise", _among_noise, tolerable=False),
    Rewritten("not-a-number", answer_shapes.not_a_number, tolerable=False),
    Rewritten("infinite", answer_shapes.infinite, tolerable=False, partly_right=True),
    Rewritten("true-for-numbers", answer_shapes.true, tolerable=False, partly_right=True),
    Rewritten("off-by-a-tenth", answer_shapes.off_by_a_tenth, tolerable=True, partly_right=True),
    Rewritten("first-half", answer_shapes.half, tolerable=False, partly_right=True),
    Rewritten("first-only", answer_shapes.first_only, tolerable=False, partly_right=True),
    Rewritten("first-letters", answer_shapes.first_letters, tolerable=False, partly_right=True),
    Rewritten("first-repeated", answer_shapes.repeated, tolerable=False, partly_right=True),
    Rewritten("emptied", answer_shapes.emptied, tolerable=False, partly_right=True),
    Rewritten("more-elements", answer_shapes.more_elements, tolerable=False, partly_right=True),
    Rewritten("more-keys", answer_shapes.more_keys, tolerable=True, partly_right=True),
)
