"""Text of a file as a student is shown it: with every control character seen, and never half a character.

What a command prints has escapes that decorate and carriage returns that write over what stood there; in a file they
are content. Left as they are they would be taken for the former on the way to the student, which then edits lines that
it has not seen.
"""

from __future__ import annotations

import codecs

__all__ = ["PICTURES", "cut", "pictured"]

PICTURES = {code: chr(0x2400 + code) for code in range(0x20) if chr(code) not in "\t\n"}
PICTURES |= {0x7F: "\u2421"} | dict.fromkeys(range(0x80, 0xA0), "\ufffd")


def pictured(data: bytes) -> bytes:
    """`data` with the picture that Unicode has for it in the place of each control character but tab and newline."""
    return data.decode("utf-8", "surrogateescape").translate(PICTURES).encode("utf-8", "surrogateescape")


def cut(data: bytes, max_bytes: int) -> bytes:
    """The first `max_bytes`, less what they have of a character that is cut in two; bytes that are no text stay."""
    if len(data) <= max_bytes:
        return data
    decoder = codecs.getincrementaldecoder("utf-8")("surrogateescape")
    return decoder.decode(data[:max_bytes]).encode("utf-8", "surrogateescape")
