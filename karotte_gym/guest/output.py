"""Keeps the head and the tail of what a program prints, whatever it prints: `BoundedOutput`."""

from __future__ import annotations

__all__ = ["BoundedOutput"]


class BoundedOutput:
    """Holds `limit_bytes` of a stream, half from its beginning and half from its end; the middle is counted.

    A flood must cost the agent neither memory nor work for each line: a chunk is copied at most once, and what is far
    longer than the limit is not copied at all but for its end. The tail is cut back when it has grown fourfold, so that
    many small chunks stay cheap as well.
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

    @property
    def cut_bytes(self) -> int:
        """How much `result` leaves out."""
        return max(0, self._total - self._head_bytes - self._tail_bytes)

    @property
    def total_bytes(self) -> int:
        """How much was fed."""
        return self._total

    def result(self) -> bytes:
        """Head, a line that says how much is missing, tail; or all of it."""
        self._trim()
        if not self.cut_bytes:
            return bytes(self._head + self._tail)
        return b"%s\n[... %d bytes cut ...]\n%s" % (self._head, self.cut_bytes, self._tail)

    def _trim(self) -> None:
        del self._tail[: max(0, len(self._tail) - self._tail_bytes)]
