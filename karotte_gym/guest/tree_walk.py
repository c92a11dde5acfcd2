"""A place in a directory tree that is held by one descriptor, however deep: `Cursor`.

Paths fail beyond PATH_MAX and recursion beyond a thousand levels; a descriptor a level fails at the limit of open
files. The cursor keeps the present directory open and remembers of its ancestors only which they are. It climbs by
".." and checks that it arrives where it came from: a directory that was renamed under the walk would lead somewhere
else.
"""

from __future__ import annotations

import os

from .nofollow import Problem, open_directory

__all__ = ["Cursor", "Moved", "identity"]

_SHOWN_LEVELS = 40


class Moved(Exception):
    """The directory was renamed while the walk was inside; going on would leave the tree."""


class Cursor:
    """Takes over the descriptor of the top directory. A context manager that closes what it holds."""

    def __init__(self, descriptor: int, path: str):
        self.fd = descriptor
        self.status = os.fstat(descriptor)
        self._top = path.rstrip("/")
        self._names: list[str] = []
        self._above: list[tuple[int, int]] = []

    def __enter__(self) -> Cursor:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self.fd)

    @property
    def depth(self) -> int:
        """Levels below the top."""
        return len(self._names)

    @property
    def path(self) -> str:
        """Path of the present directory; as long as it happens to be."""
        return "/".join([self._top, *self._names]) or "/"

    def path_of(self, name: str) -> str:
        """Path of an entry of the present directory; as long as it happens to be, and never opened."""
        return "/".join([self._top, *self._names, name])

    def shown(self, name: str) -> str:
        """The same for a sentence or report: the middle of a path of thousands of levels is left out."""
        names = self._names
        if len(names) > _SHOWN_LEVELS:
            names = [*names[: _SHOWN_LEVELS // 2], "...", *names[-_SHOWN_LEVELS // 2 :]]
        return "/".join([self._top, *names, name])

    def enter(self, name: str, expected: os.stat_result) -> None:
        """Go into the directory `name`, which must be the one that `expected` was read from."""
        below = open_directory(name, self.fd, self.shown(name))
        status = os.fstat(below)
        if identity(status) != identity(expected):
            os.close(below)
            raise Problem("busy", f"{self.shown(name)} was exchanged while it was read")
        self._above.append(identity(self.status))
        self._names.append(name)
        os.close(self.fd)
        self.fd, self.status = below, status

    def leave(self) -> str:
        """Go back up and return the name that was left. Moved when ".." is not where the walk came from."""
        above = os.open("..", os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=self.fd)
        status = os.fstat(above)
        if identity(status) != self._above[-1]:
            os.close(above)
            raise Moved(self.shown(""))
        os.close(self.fd)
        self._above.pop()
        self.fd, self.status = above, status
        return self._names.pop()


def identity(status: os.stat_result) -> tuple[int, int]:
    """Which file system and which inode."""
    return status.st_dev, status.st_ino
