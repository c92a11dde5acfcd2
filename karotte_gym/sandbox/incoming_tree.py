"""What the parts of a submission may claim: which paths, in which order, how many, how large."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn

from karotte_gym.config import SubmissionLimits
from karotte_gym.errors import ConfigError, MachineDied

__all__ = ["IncomingTree", "only", "rubbish"]

MAX_PATH_BYTES = 4096 - 128  # PATH_MAX of the machine's Linux, less the directory that a grader sees it under
MAX_NAME_BYTES = 255  # NAME_MAX of its file system


def rubbish(what: str) -> MachineDied:
    """The error for a stream that no honest agent sends."""
    return MachineDied(f"the machine sent {what} in place of a submission", cause="protocol")


def only(value: object, **types: type) -> list[Any]:
    """The values of exactly these keys, of exactly these types (a truth value is no number)."""
    if not isinstance(value, dict) or value.keys() != types.keys():
        raise rubbish("a part with other fields than it has")
    for key, kind in types.items():
        if type(value[key]) is not kind:
            raise rubbish(f"a part of which {key} is no {kind.__name__}")
    return [value[key] for key in types]


class IncomingTree:
    """Checks each entry as it is announced. Parents come before children and the named paths in the order asked for."""

    def __init__(self, limits: SubmissionLimits, paths: Sequence[str]):
        for path in paths:
            _check_path(path, ConfigError)
        self._limits = limits
        self._awaited = list(reversed(paths))
        self._root = ""
        self._directories: set[str] = set()
        self._seen: set[str] = set()
        self._total_bytes = 0
        self.missing_paths: list[str] = []

    def missing(self, path: object) -> None:
        """A named path that is not there."""
        if not self._awaited or path != self._awaited[-1]:
            raise rubbish("news of a missing path that was not asked for")
        self.missing_paths.append(self._awaited.pop())
        self._root = ""

    def add_directory(self, path: str, mode: int) -> None:
        """A directory; files may follow in it."""
        self._add(path, mode)
        self._directories.add(path)

    def add_file(self, path: str, mode: int, size: int) -> None:
        """A file of which `size` bytes will follow."""
        self._add(path, mode)
        if not 0 <= size <= self._limits.max_file_bytes:
            raise rubbish("a file larger than the limit")
        self._total_bytes += size
        if self._total_bytes > self._limits.max_total_bytes:
            raise rubbish("more bytes than the limit")

    def check_complete(self) -> None:
        """Each path that was asked for was answered."""
        if self._awaited:
            raise rubbish(f"nothing about {self._awaited[-1]}")

    def _add(self, path: str, mode: int) -> None:
        _check_path(path, _Rubbish)
        if not 0 <= mode <= 0o777:
            raise rubbish("a mode that is none")
        if path in self._seen:
            raise rubbish("an entry twice")
        if len(self._seen) >= self._limits.max_entries:
            raise rubbish("more entries than the limit")
        if self._awaited and path == self._awaited[-1]:
            self._root = self._awaited.pop()
        elif not self._root or not path.startswith(f"{self._root}/"):
            raise rubbish("an entry that was not asked for")
        elif path.rpartition("/")[0] not in self._directories:
            raise rubbish("an entry without its directory")
        elif path.count("/") - self._root.count("/") > self._limits.max_depth:
            raise rubbish("an entry deeper than the limit")
        self._seen.add(path)


class _Rubbish:
    """Lets `_check_path` raise for the machine what it raises as ConfigError for the caller."""

    def __new__(cls, message: str) -> Any:
        return rubbish(f"a bad path ({message})")


def _check_path(path: str, error: Any) -> None:
    def refuse(why: str) -> NoReturn:
        raise error(f"{path!r:.200} {why}")

    try:
        size = len(path.encode("utf-8"))
    except UnicodeEncodeError:
        refuse("is no text")
    if size >= MAX_PATH_BYTES:
        refuse("is too long")
    if not path.startswith("/"):
        refuse("is not absolute")
    for part in path[1:].split("/"):
        if part in ("", ".", ".."):
            refuse("is not normalised")
        if len(part.encode()) > MAX_NAME_BYTES:
            refuse("has a component that is too long")
    if any(ord(letter) < 32 or 127 <= ord(letter) < 160 or letter in "\u2028\u2029" for letter in path):
        refuse("holds control characters")
