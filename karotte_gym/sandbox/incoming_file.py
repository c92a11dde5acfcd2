"""One file of a submission while its bytes arrive: written in order, holes kept, digest compared at the end."""

from __future__ import annotations

import hashlib
import os

from karotte_gym.sandbox.contract import SubmittedFile
from karotte_gym.sandbox.incoming_tree import rubbish

__all__ = ["IncomingFile"]

_ZEROS = bytes(1024 * 1024)
# The file system of the machine has blocks of 1 KiB or more, so an honest file has no more pieces than this.
_SMALLEST_PIECE_BYTES = 512
_SPARE_PIECES = 16


class IncomingFile:
    """Takes `size` bytes of data and holes without a gap. `path` is the machine's; the host's file is `data_path`."""

    def __init__(self, path: str, mode: int, size: int, data_path: str):
        self._path, self._mode, self._size, self._data_path = path, mode, size, data_path
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        self._descriptor = os.open(data_path, flags, 0o600)
        self._at = 0
        self._pieces_left = size // _SMALLEST_PIECE_BYTES + _SPARE_PIECES
        self._content = hashlib.sha256()  # of the whole file: what the record names
        self._sent = hashlib.sha256()  # of the data alone: what the agent hashed

    def data(self, offset: int, body: bytes) -> None:
        """The next bytes."""
        self._piece(offset, len(body))
        self._content.update(body)
        self._sent.update(body)
        rest = memoryview(body)
        while rest:
            written = os.pwrite(self._descriptor, rest, offset)
            offset += written
            rest = rest[written:]

    def hole(self, offset: int, length: int) -> None:
        """Zeros that take no space, here neither."""
        self._piece(offset, length)
        while length:
            step = min(length, len(_ZEROS))
            self._content.update(memoryview(_ZEROS)[:step])
            length -= step

    def end(self, sha256: str) -> SubmittedFile:
        """All of it is here; close and describe it."""
        if self._at != self._size:
            raise rubbish(f"{self._at} bytes of a file of {self._size}")
        if sha256 != self._sent.hexdigest():
            raise rubbish("a file with another digest than it has")
        os.ftruncate(self._descriptor, self._size)
        self.close()
        content = self._content.hexdigest()
        return SubmittedFile(self._path, False, self._mode, self._size, content, self._data_path)

    def close(self) -> None:
        """Close the host's file; idempotent."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def _piece(self, offset: int, length: int) -> None:
        self._pieces_left -= 1
        if self._pieces_left < 0:
            raise rubbish("a file in more pieces than a disk can have")
        if offset != self._at or length < 1 or length > self._size - self._at:
            raise rubbish("a piece of a file that is out of place")
        self._at += length
