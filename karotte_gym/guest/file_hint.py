"""Where a text that does not occur in a file nearly does: what a model got wrong is mostly white space or one line.

Each look costs time that grows with the file and no faster, and long files are not looked through at all.
"""

from __future__ import annotations

from .file_text import cut

__all__ = ["nearest"]

MAX_HINT_FILE_BYTES = 1 << 20
MAX_SHOWN_BYTES = 120


def nearest(data: bytes, old: bytes) -> str:
    """A sentence that begins with "; ", or nothing when the file has nothing like it."""
    if len(data) > MAX_HINT_FILE_BYTES:
        return ""
    first = next((line.strip() for line in old.splitlines() if line.strip()), b"")
    if not first:
        return ""
    if b" ".join(old.split()) in b" ".join(data.split()):
        return f"; line {_line_of(data, _place_of_words(data, first))} differs from it in white space only"
    if (place := data.lower().find(old.lower())) >= 0:
        return f"; line {_line_of(data, place)} has it in other upper and lower case"
    if (place := data.find(first)) >= 0:
        return f"; its first line is in line {_line_of(data, place)}, what follows differs"
    word = max(first.split(), key=len)
    if (place := data.find(word)) >= 0:
        return f"; the nearest may be line {_line_of(data, place)}: {_shown(data, place)}"
    return ""


def _place_of_words(data: bytes, first: bytes) -> int:
    """Where the words of `first` begin; their first word's place when white space within the line differs as well."""
    place = data.find(first)
    return place if place >= 0 else data.find(first.split()[0])


def _line_of(data: bytes, place: int) -> int:
    return data.count(b"\n", 0, max(place, 0)) + 1


def _shown(data: bytes, place: int) -> str:
    begin = data.rfind(b"\n", 0, place) + 1
    end = data.find(b"\n", place)
    line = data[begin : len(data) if end < 0 else end].strip()
    return cut(line, MAX_SHOWN_BYTES).decode("utf-8", "replace") + (" [...]" if len(line) > MAX_SHOWN_BYTES else "")
