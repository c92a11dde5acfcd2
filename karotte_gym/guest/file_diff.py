"""What a replacement changed, as the hunks of a diff: found from the places of the matches, not by comparing files.

A general comparison takes time that grows with the square of the file; the places are known, so that a megabyte costs
no more than a line.
"""

from __future__ import annotations

from .file_text import cut, pictured

__all__ = ["describe"]

MAX_HUNKS = 5
MAX_HUNK_LINES = 40  # of each side
MAX_LINE_BYTES = 400
CONTEXT_LINES = 2
MAX_CHAIN = 1000  # matches of several lines, each beginning where the one before ends


def describe(data: bytes, old: bytes, new: bytes, replaced: int) -> bytes:
    """Hunks for the first of the `replaced` matches of `old` in `data` (one or all), and how many more there are."""
    hunks: list[bytes] = []
    position, line, counted_to, left = data.find(old), 1, 0, replaced
    while position >= 0 and left and len(hunks) < MAX_HUNKS:
        begin, end, matches = _lines_around(data, old, new, position, only=replaced == 1)
        line += data.count(b"\n", counted_to, begin)
        counted_to = begin
        hunks.append(_hunk(data, begin, end, line, data[begin:end].replace(old, new, matches)))
        left -= matches
        position = data.find(old, end)
    if left:
        hunks.append(b"[... %d more replacements ...]\n" % left)
    return b"".join(hunks)


def _lines_around(data: bytes, old: bytes, new: bytes, position: int, *, only: bool) -> tuple[int, int, int]:
    """(begin, end, matches) of the whole lines that the match at `position` covers, and unless `only` others on them."""
    begin = data.rfind(b"\n", 0, position) + 1
    joined = old.endswith(b"\n") and not new.endswith(b"\n") and bool(new or position > begin)
    end = _line_end(data, position + len(old) + joined)  # a line that loses its end takes in the next one
    if only:
        return begin, end, 1
    if b"\n" not in old:
        return begin, end, data.count(old, position, end)
    matches = 0
    while 0 <= position < end and matches < MAX_CHAIN:
        matches += 1
        end = _line_end(data, position + len(old) + joined)
        position = data.find(old, position + len(old), end + len(old))
    return begin, end, matches


def _line_end(data: bytes, position: int) -> int:
    """Behind the end of the line that the byte before `position` is on."""
    found = data.find(b"\n", position - 1)
    return len(data) if found < 0 else found + 1


def _hunk(data: bytes, begin: int, end: int, line: int, changed: bytes) -> bytes:
    start = begin
    for _ in range(CONTEXT_LINES):
        start = data.rfind(b"\n", 0, max(0, start - 1)) + 1 if start else 0
    stop = end
    for _ in range(CONTEXT_LINES):
        found = data.find(b"\n", stop)
        stop = len(data) if found < 0 else found + 1
    sides = [(b" ", data[start:begin]), (b"-", data[begin:end]), (b"+", changed), (b" ", data[end:stop])]
    return b"@@ line %d @@\n" % line + b"".join(_side(mark, text) for mark, text in sides)


def _side(mark: bytes, text: bytes) -> bytes:
    lines = text.split(b"\n", MAX_HUNK_LINES)
    if lines and not lines[-1]:
        lines.pop()
    shown = [mark + _cut(line) + b"\n" for line in lines[:MAX_HUNK_LINES]]
    if len(lines) > MAX_HUNK_LINES:
        shown.append(b"[... more lines ...]\n")
    return b"".join(shown)


def _cut(line: bytes) -> bytes:
    line = line.removesuffix(b"\r")
    return pictured(cut(line, MAX_LINE_BYTES)) + (b" [...]" if len(line) > MAX_LINE_BYTES else b"")
