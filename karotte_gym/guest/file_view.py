"""Lines of a file with their numbers: `view_lines`, which runs as the student. Bounded in time, reading and answer."""

from __future__ import annotations

import os
import time

from .file_open import FileProblem, go_to, open_regular
from .file_text import cut, pictured

__all__ = ["view_lines"]

CHUNK_BYTES = 256 * 1024
MAX_SCAN_BYTES = 256 << 20  # a sparse file may have terabytes; what lies behind this is reached with other tools
MAX_SCAN_S = 6.0  # less than the caller waits, so that the answer says why
MAX_LINE_BYTES = 4000  # shown of one line; the files that models view by line have shorter ones


def view_lines(path: bytes, shell_pid: int | None, start: int, end: int, limit_bytes: int) -> tuple[bytes, int]:
    """(text, bytes left out): lines `start` to `end` in the form of ``cat -n``, control characters as pictures.

    The carriage return of a CR LF is part of the line's end. FileProblem says why not.
    """
    go_to(shell_pid)
    fd = open_regular(path, os.O_RDONLY)
    try:
        return _View(fd, path.decode("utf-8", "replace"), limit_bytes).lines(start, end)
    finally:
        os.close(fd)


class _View:
    def __init__(self, fd: int, name: str, limit_bytes: int):
        self._fd, self._name, self._limit_bytes = fd, name, limit_bytes
        self._deadline = time.monotonic() + MAX_SCAN_S
        self._read_bytes = 0
        self._unread, self._at = b"", 0  # a chunk and how much of it was dealt with: cutting it up would copy it per line
        self._shown = bytearray()
        self._left_out = 0

    def lines(self, start: int, end: int) -> tuple[bytes, int]:
        more, number = self._skip_to(start), start
        while more and number <= end and len(self._shown) < self._limit_bytes:
            line, more = self._line()
            self._show(number, line)
            number += 1
        if more and number <= end:
            self._left_out += 1
            self._shown += b"[... no room for line %d and those after it; ask for fewer lines ...]\n" % number
        return bytes(self._shown), self._left_out

    def _skip_to(self, start: int) -> bool:
        """Stand at line `start`; False for an empty file, FileProblem when there is no such line."""
        number, last = 1, b""
        while self._more():
            newlines = self._unread.count(b"\n")
            if number + newlines >= start:
                self._at = len(self._unread) - len(self._unread.split(b"\n", start - number)[-1])
                if self._more():
                    return True
                raise FileProblem(f"{self._name}: has only {start - 1} lines")
            number += newlines
            last, self._at = self._unread, len(self._unread)
        if start == 1:
            return False
        lines = 0 if not self._read_bytes else number - last.endswith(b"\n")
        raise FileProblem(f"{self._name}: has only {lines} lines")

    def _line(self) -> tuple[bytes, bool]:
        """The next line as it is shown, and whether there is another."""
        kept, length, ended, more = bytearray(), 0, False, True
        while more and not ended:
            end = self._unread.find(b"\n", self._at)
            ended = end >= 0
            end = end if ended else len(self._unread)
            kept += self._unread[self._at : min(end, self._at + MAX_LINE_BYTES + 1 - len(kept))]
            length += end - self._at
            self._at = end + ended
            try:
                more = self._more()
            except FileProblem:
                if ended:
                    raise
                return self._begun(kept, length, b"the rest of this line is too long to be viewed"), False
        if length > MAX_LINE_BYTES:
            return self._begun(kept, length), more
        return pictured(bytes(kept.removesuffix(b"\r") if ended else kept)), more

    def _begun(self, kept: bytearray, length: int, why: bytes = b"") -> bytes:
        """What is shown of a line that is longer, or of which no more can be read."""
        shown = cut(bytes(kept), MAX_LINE_BYTES)
        rest = length - len(shown)
        self._left_out += rest
        return pictured(shown) + b" [... %s ...]" % (why or b"%d bytes of this line cut" % rest)

    def _more(self) -> bool:
        """Whether something is left, reading on where what was read is used up."""
        if self._at >= len(self._unread):
            self._unread, self._at = self._chunk(), 0
        return bool(self._unread)

    def _show(self, number: int, line: bytes) -> None:
        self._shown += b"%6d\t%s\n" % (number, line)

    def _chunk(self) -> bytes:
        if self._read_bytes >= MAX_SCAN_BYTES:
            raise FileProblem(f"{self._name}: too long; only the first {MAX_SCAN_BYTES >> 20} MiB can be viewed")
        if time.monotonic() > self._deadline:
            raise FileProblem(f"{self._name}: reading up to that line takes too long")
        try:
            chunk = os.read(self._fd, CHUNK_BYTES)
        except OSError as error:
            raise FileProblem(f"{self._name}: {error.strerror}") from None
        self._read_bytes += len(chunk)
        return chunk
