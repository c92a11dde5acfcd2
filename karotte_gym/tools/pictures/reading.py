"""What the readers of all formats share: bounds, and the sentence that says why something is no picture to be shown."""

from __future__ import annotations

import struct
from typing import Any

__all__ = ["ANIMATED", "MAX_PARTS", "NoPicture", "Reader"]

MAX_PARTS = 50_000  # chunks, segments or blocks; a GIF of 10 MiB as encoders write it has 41,000
ANIMATED = "is animated; only still pictures can be shown, so save one frame as a picture of its own"


class NoPicture(Exception):
    """Why it is not shown, as the end of a sentence that begins with the file's name."""


class Reader:
    """A place in the bytes. What lies beyond their end is never read: the file is cut off, and that is said."""

    def __init__(self, data: bytes, at: int = 0):
        self.data, self.at = data, at
        self._parts = 0

    def take(self, count: int) -> bytes:
        """The next `count` bytes."""
        self._need(count)
        self.at += count
        return self.data[self.at - count : self.at]

    def skip(self, count: int) -> None:
        """Step over `count` bytes without a copy."""
        self._need(count)
        self.at += count

    def unpack(self, layout: str) -> tuple[Any, ...]:
        """The next fields, by the letters of `struct`."""
        return struct.unpack(layout, self.take(struct.calcsize(layout)))

    def count_part(self) -> None:
        """Called for each part, so that a file of a million empty ones can't keep us busy."""
        self._parts += 1
        if self._parts > MAX_PARTS:
            raise NoPicture(f"has more than {MAX_PARTS} parts")

    def end(self, kind: str) -> None:
        """What follows the picture may be another file, whatever reads the bytes next: nothing may follow."""
        left = len(self.data) - self.at
        if left:
            raise NoPicture(f"goes on for {left} bytes after the end of its {kind} picture")

    def _need(self, count: int) -> None:
        if count < 0 or self.at + count > len(self.data):
            raise NoPicture(f"is cut off: it ends at byte {len(self.data)}, within the picture")
