"""The last bytes of something that a machine writes: its console, its emulator's complaints. Bounded, never blocking.

The machine decides what comes and how much. So the reading end is non-blocking, one `drain` reads a bounded amount,
only the tail is kept, and when nobody reads, the pipe is full and the emulator throws the rest away.
"""

from __future__ import annotations

import os

__all__ = ["Tail"]

KEPT_BYTES = 64 * 1024
READ_BYTES = 64 * 1024
READS_A_DRAIN = 4  # a flood must not keep a waiting call from its deadline


class Tail:
    """Owns the reading end `fd` of a pipe."""

    def __init__(self, fd: int):
        os.set_blocking(fd, False)
        self._fd = fd
        self._kept = bytearray()

    def fileno(self) -> int:
        return self._fd

    def drain(self) -> bool:
        """Take what is there; False when nothing can come any more."""
        for _ in range(READS_A_DRAIN):
            if self._fd < 0:
                return False
            try:
                data = os.read(self._fd, READ_BYTES)
            except BlockingIOError:
                return True
            if not data:
                return False
            self._kept += data
            del self._kept[:-KEPT_BYTES]
        return True

    def text(self) -> str:
        """What is kept, as harmless text: no escape sequence, control character or invalid byte of the machine's."""
        self.drain()
        text = self._kept.decode("utf-8", "replace").replace("\r\n", "\n")
        return "".join(c if c.isprintable() or c in "\n\t" else "\N{REPLACEMENT CHARACTER}" for c in text)

    def close(self) -> None:
        if self._fd >= 0:
            fd, self._fd = self._fd, -1
            os.close(fd)
