"""`SubmittedFiles`: what was handed in, read on the host without trusting a byte of it.

The copies lie in files of our own naming; a path of the machine is looked up as text in the listing that was checked on
arrival and never becomes a path of the host. Reads are bounded, since a submission may be large on purpose.
"""

from __future__ import annotations

import os
import stat

from karotte_gym.errors import GradingError
from karotte_gym.sandbox.contract import Submission, SubmittedFile

__all__ = ["MAX_READ_BYTES", "SubmissionUnusable", "SubmittedFiles"]

MAX_READ_BYTES = 16 * 1024 * 1024  # of one file, where the author asks for no other bound
SHOWN_PATH_CHARS = 200  # of a path in a reason: it may come out of the submission, as long as that is


class SubmissionUnusable(Exception):
    """What was handed in can't be judged: not there, no file, too large, no text. A score of 0 with this as the reason."""


class SubmittedFiles:
    """A read-only view of a submission under the paths that it had in the student's machine.

    A path may be one that the submission names, so a wrong one (relative, no text, too long) is the submission's fault
    like one that is not there: SubmissionUnusable from every method, and its reason says what a path looks like.
    """

    def __init__(self, submission: Submission):
        self._entries = {file.path: file for file in submission.files}

    def exists(self, path: str) -> bool:
        """Whether a file or directory of that path was handed in."""
        return _absolute(path) in self._entries

    def list(self, directory: str = "/workdir") -> list[str]:
        """Paths of all files at or below `directory`, sorted. The student chose the names below a submitted directory."""
        inside = _absolute(directory).rstrip("/")
        return sorted(
            path
            for path, entry in self._entries.items()
            if not entry.is_dir and (path == inside or path.startswith(inside + "/"))
        )

    def size(self, path: str) -> int:
        """Bytes of a file. SubmissionUnusable when it was not handed in."""
        return self._file(path).size

    def read_bytes(self, path: str, max_bytes: int = MAX_READ_BYTES) -> bytes:
        """A file's bytes. SubmissionUnusable when it was not handed in, is a directory, or has more than `max_bytes`."""
        entry = self._file(path)
        if entry.size > max_bytes:
            raise SubmissionUnusable(f"{_shown(path)} has {entry.size} bytes; {max_bytes} are read")
        try:
            return _read(entry)
        except OSError as error:
            raise GradingError(f"the copy of {path} can't be read on the host: {error.strerror}") from error

    def read_text(self, path: str, max_bytes: int = MAX_READ_BYTES, encoding: str = "utf-8") -> str:
        """The same as text. SubmissionUnusable also when it is none in that encoding."""
        try:
            return self.read_bytes(path, max_bytes).decode(encoding)
        except UnicodeDecodeError:
            raise SubmissionUnusable(f"{_shown(path)} is no {encoding} text") from None

    def _file(self, path: str) -> SubmittedFile:
        entry = self._entries.get(_absolute(path))
        if entry is None:
            raise SubmissionUnusable(f"{_shown(path)} was not handed in")
        if entry.is_dir:
            raise SubmissionUnusable(f"{_shown(path)} is a directory, not a file")
        return entry


def _absolute(path: str) -> str:
    if not isinstance(path, str):
        raise SubmissionUnusable(f"a submitted path is text, not {type(path).__name__}")
    if not path.startswith("/"):
        raise SubmissionUnusable(f'a submitted path is the absolute one of the machine, "/workdir/x.txt", not {_shown(path)}')
    return path


def _shown(path: str) -> str:
    return path if len(path) <= SHOWN_PATH_CHARS else path[:SHOWN_PATH_CHARS] + "..."


def _read(entry: SubmittedFile) -> bytes:
    """Exactly the bytes that custody took. GradingError when the copy on the host is another one by now."""
    descriptor = os.open(entry.data_path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb") as stream:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise GradingError(f"the copy of {entry.path} on the host is no regular file any more")
        data = stream.read(entry.size + 1)
    if len(data) != entry.size:
        raise GradingError(f"the copy of {entry.path} on the host has changed its size since custody")
    return data
