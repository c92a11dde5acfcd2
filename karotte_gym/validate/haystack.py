"""Looks for secrets in bytes, also in the disguises that a careless author takes for protection.

Plain, hexadecimal, base64 (wherever in the encoded text it begins), UTF-16, reversed, and each of them inside data that
is compressed. A number counts only where no further digit stands beside it.
"""

from __future__ import annotations

import base64
import bz2
import lzma
import re
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from karotte_gym.validate.needles import Needle

__all__ = ["Hit", "search"]

MAX_INFLATED_BYTES = 16 * 1024 * 1024
GZIP_OR_ZLIB = 32 + zlib.MAX_WBITS
WHOLE_SHARE = 0.5  # of the strings of a long file that, found in one place, are the file


@dataclass(frozen=True, slots=True)
class Hit:
    """What was found where."""

    needle: Needle
    place: str
    disguise: str  # "plain text", "base64", ...


class Disguises:
    """All forms of a list of needles, made once for many places. Only single secrets are looked for in disguise."""

    def __init__(self, needles: Sequence[Needle]):
        self.forms = [(form, name, needle) for needle in needles for name, form in _forms(needle)]


def search(disguises: Disguises, data: bytes, place: str) -> list[Hit]:
    """Each needle at most once."""
    found: dict[Needle, Hit] = {}
    for name, content in _contents(data):
        for form, disguise, needle in disguises.forms:
            if needle not in found and form in content and _stands_alone(form, content):
                found[needle] = Hit(needle, place, f"{disguise}{name}")
    parts = Counter(needle.source for needle in found if needle.whole)
    return [hit for needle, hit in found.items() if not needle.whole or parts[needle.source] >= WHOLE_SHARE * needle.whole]


def _forms(needle: Needle) -> Iterator[tuple[str, bytes]]:
    text = needle.text
    yield "plain text", text
    if needle.whole:
        return
    yield "hexadecimal", text.hex().encode()
    yield "hexadecimal", text.hex().upper().encode()
    yield "text in reverse", text[::-1]
    yield "UTF-16", b"".join(bytes([byte, 0]) for byte in text)[:-1]
    for shift in range(3):
        encoded = base64.b64encode(bytes(shift) + text)
        begin = (shift * 8 + 5) // 6  # the letters that the bytes before it have a share in
        yield "base64", encoded[begin : (shift + len(text)) * 8 // 6]


def _stands_alone(form: bytes, content: bytes) -> bool:
    if not re.fullmatch(rb"[0-9.]+", form):
        return True
    return re.search(rb"(?<![0-9])" + re.escape(form) + rb"(?![0-9])", content) is not None


def _contents(data: bytes) -> Iterator[tuple[str, bytes]]:
    """The data, and what is in it when it is compressed."""
    yield "", data
    if data[:2] == b"\x1f\x8b" or data[:1] == b"\x78":
        yield from _inflated(zlib.decompressobj(GZIP_OR_ZLIB), data)
    elif data[:3] == b"BZh":
        yield from _inflated(bz2.BZ2Decompressor(), data)
    elif data[:6] == b"\xfd7zXZ\x00":
        yield from _inflated(lzma.LZMADecompressor(), data)


def _inflated(
    decompressor: zlib._Decompress | bz2.BZ2Decompressor | lzma.LZMADecompressor, data: bytes
) -> Iterator[tuple[str, bytes]]:
    try:
        yield ", compressed", decompressor.decompress(data, MAX_INFLATED_BYTES)
    except (zlib.error, OSError, lzma.LZMAError, EOFError):
        return  # begins like compressed data and is none
