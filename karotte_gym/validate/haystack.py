"""Looks for secrets in bytes, also in the disguises that a careless author takes for protection.

Plain, hexadecimal, base64 (wherever in the encoded text it begins), UTF-16, UTF-32, reversed, in other letter case, each of
them also inside what is packed, and plain in all else that `unpacked` makes of the bytes. A number counts only where no
further digit stands beside it, but for zeros that change nothing.
"""

from __future__ import annotations

import base64
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from karotte_gym.validate.needles import Needle
from karotte_gym.validate.unpacked import SPELLED, views

__all__ = ["Disguises", "Hit", "search"]

WHOLE_SHARE = 0.5  # of the strings of a long file that, found in one place, are the file
PLAIN = "plain text"
OTHER_CASE = "text in other letter case"


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
        self.plain = [each for each in self.forms if each[1] == PLAIN]


def search(disguises: Disguises, data: bytes, place: str) -> list[Hit]:
    """Each needle at most once."""
    found: dict[Needle, Hit] = {}
    for name, content in views(data):
        lower = content.lower()
        for form, disguise, needle in disguises.plain if name.endswith(SPELLED) else disguises.forms:
            within = lower if disguise == OTHER_CASE else content
            if needle not in found and form in within and _stands_alone(form, within):
                found[needle] = Hit(needle, place, f"{disguise}{name}")
    parts = Counter(needle.source for needle in found if needle.whole)
    return [hit for needle, hit in found.items() if not needle.whole or parts[needle.source] >= WHOLE_SHARE * needle.whole]


def _forms(needle: Needle) -> Iterator[tuple[str, bytes]]:
    text = needle.text
    yield PLAIN, text
    if needle.whole:
        return
    yield "hexadecimal", text.hex().encode()
    yield "hexadecimal", text.hex().upper().encode()
    yield "text in reverse", text[::-1]
    yield "UTF-16", b"".join(bytes([byte, 0]) for byte in text)[:-1]
    yield "UTF-32", b"".join(bytes([byte, 0, 0, 0]) for byte in text)[:-3]
    if text.lower() != text.upper():
        yield OTHER_CASE, text.lower()
    for shift in range(3):
        encoded = base64.b64encode(bytes(shift) + text)
        begin = (shift * 8 + 5) // 6  # the letters that the bytes before it have a share in
        yield "base64", encoded[begin : (shift + len(text)) * 8 // 6]


def _stands_alone(form: bytes, content: bytes) -> bool:
    if not re.fullmatch(rb"[0-9.]+", form):
        return True
    zeros = rb"0*" if b"." in form else rb""
    return re.search(rb"(?<![0-9])0*" + re.escape(form) + zeros + rb"(?![0-9])", content) is not None
