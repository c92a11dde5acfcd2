"""`Journal`: an append-only file of lines that a killed process leaves whole, and the digest of what was written to it.

A line is in the kernel's hands when `append` returns, so a SIGKILL of this process loses none; at most the last one is
torn when the machine itself goes down. For that case the disk is told within `SYNC_WITHIN_S` of each line, by a timer,
so that no call of a student waits for a disk.
"""

from __future__ import annotations

import hashlib
import os
import threading
from pathlib import Path

from karotte_gym.errors import EvidenceError

__all__ = ["Journal"]

SYNC_WITHIN_S = 3.0
MODE = 0o644


class Journal:
    """Creates `path`, which must not exist. `close` syncs; afterwards `sha256` and `size` are final."""

    def __init__(self, path: Path):
        self.path = path
        self.size = 0
        self._digest = hashlib.sha256()
        self._lock = threading.RLock()
        self._timer: threading.Timer | None = None
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
        try:
            self._descriptor = os.open(path, flags, MODE)
        except OSError as error:
            raise EvidenceError(f"{path} can't be made: {error.strerror}") from error

    @property
    def sha256(self) -> str:
        """Of what was written here, which is what a file that nobody else touched holds."""
        return self._digest.hexdigest()

    @property
    def closed(self) -> bool:
        """Whether nothing more may be written."""
        return self._descriptor < 0

    def append(self, line: bytes) -> None:
        """Write one line. EvidenceError when the disk does not take it."""
        with self._lock:
            if self.closed:
                raise EvidenceError(f"{self.path} is closed: the episode has ended")
            rest = memoryview(line)
            try:
                while rest:
                    rest = rest[os.write(self._descriptor, rest) :]
            except OSError as error:
                os.ftruncate(self._descriptor, self.size)  # a full disk gives room back; half a line helps nobody
                raise EvidenceError(f"{self.path} can't be written: {error.strerror}") from error
            self._digest.update(line)
            self.size += len(line)
            if self._timer is None:
                self._timer = threading.Timer(SYNC_WITHIN_S, self._sync)
                self._timer.daemon = True
                self._timer.start()

    def close(self) -> None:
        """Sync and close; idempotent."""
        with self._lock:
            if self.closed:
                return
            descriptor, self._descriptor = self._descriptor, -1
            if self._timer is not None:
                self._timer.cancel()
        try:
            os.fsync(descriptor)
        except OSError as error:
            raise EvidenceError(f"{self.path} can't be written: {error.strerror}") from error
        finally:
            os.close(descriptor)

    def _sync(self) -> None:
        """In the timer's thread, on a descriptor of its own: `append` goes on meanwhile."""
        with self._lock:
            self._timer = None
            if self.closed:
                return
            descriptor = os.dup(self._descriptor)
        try:
            os.fdatasync(descriptor)
        finally:
            os.close(descriptor)
