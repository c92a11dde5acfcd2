"""Text from a machine or a model, made fit for a terminal: what would be obeyed is shown instead."""

from __future__ import annotations

import re
from typing import Any

__all__ = ["encodable", "visible"]

# C0 but tab and newline, DEL, C1, and the characters that turn the direction of text around
_OBEYED = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def encodable(value: Any) -> Any:
    """Nested data without lone surrogates, which no encoder takes and no reader of JSON reads back.

    A model can write one (``"\\ud800"`` in its JSON): left alone it would make its own transcript unreadable.
    """
    if isinstance(value, str):
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, dict):
        return {encodable(key): encodable(item) for key, item in value.items()}
    if isinstance(value, list):
        return [encodable(item) for item in value]
    return value


def visible(text: str) -> str:
    """`text` with control characters as pictures (U+2400..) or as ``<U+202E>``."""
    return _OBEYED.sub(lambda match: _picture(match[0]), text)


def _picture(character: str) -> str:
    code = ord(character)
    if code < 0x20:
        return chr(0x2400 + code)
    return "\u2421" if code == 0x7F else f"<U+{code:04X}>"
