"""Keeps the head and the tail of what a program prints, whatever it prints: `BoundedOutput`."""

from __future__ import annotations

__all__ = ["BoundedOutput"]


class BoundedOutput:
    """Holds `limit_bytes` of a stream, half from its beginning and half from its end; the middle is counted.

    A flood must cost the agent neither memory nor work for each line: a chunk is copied at most once, and what is far
    longer than the limit is not copied at all but for its end. The tail is cut back when it has grown fourfold, so that
    many small chunks stay cheap as well. The cut goes around a character of UTF-8 and not through it.
    """

    def __init__(self, limit_bytes: int):
        self._head_bytes = limit_bytes - limit_bytes // 2
        self._tail_bytes = limit_bytes // 2
        self._head = bytearray()
        self._tail = bytearray()
        self._total = 0

    def feed(self, data: bytes | bytearray | memoryview) -> None:
        """Take the next chunk."""
        view = memoryview(data)
        self._total += len(view)
        if (room := self._head_bytes - len(self._head)) > 0:
            self._head += view[:room]
            view = view[room:]
        if len(view) >= self._tail_bytes:
            self._tail[:] = view[len(view) - self._tail_bytes :]
            return
        self._tail += view
        if len(self._tail) > 4 * self._tail_bytes:
            self._trim()

    def skippable(self, coming_bytes: int) -> int:
        """How much of what comes next is certain to be cut, when `coming_bytes` are there to be read."""
        return max(0, coming_bytes - self._tail_bytes) if len(self._head) == self._head_bytes else 0

    def skip(self, count: int) -> None:
        """Count `count` bytes that were thrown away unread; no more than `skippable` said."""
        self._tail.clear()
        self._total += count

    @property
    def total_bytes(self) -> int:
        """How much was fed."""
        return self._total

    @property
    def cut_bytes(self) -> int:
        """How much `result` leaves out."""
        if self._total <= self._head_bytes + self._tail_bytes:
            return 0
        head, tail = self._ends()
        return self._total - len(head) - len(tail)

    def result(self) -> bytes:
        """Head, a line that says how much is missing, tail; or all of it."""
        if not self._total:
            return b""
        head, tail = self._ends()
        if cut := self._total - len(head) - len(tail):
            return b"%s\n[... %d bytes cut ...]\n%s" % (head, cut, tail)
        return bytes(head + tail)

    def _ends(self) -> tuple[bytearray, bytearray]:
        self._trim()
        if self._total <= len(self._head) + len(self._tail):
            return self._head, self._tail
        return self._head[: _whole_end(self._head)], self._tail[_whole_start(self._tail) :]

    def _trim(self) -> None:
        del self._tail[: max(0, len(self._tail) - self._tail_bytes)]


def _whole_end(data: bytearray) -> int:
    """Where `data` has to end so as not to end within a character."""
    for back in range(1, min(4, len(data)) + 1):
        byte = data[-back]
        if byte >= 0xC0:
            size = 2 if byte < 0xE0 else 3 if byte < 0xF0 else 4
            return len(data) - back if size > back else len(data)
        if byte < 0x80:
            break
    return len(data)


def _whole_start(data: bytearray) -> int:
    """Where `data` has to begin so as not to begin within a character."""
    for index in range(min(4, len(data))):
        if data[index] & 0xC0 != 0x80:
            return index
    return 0
