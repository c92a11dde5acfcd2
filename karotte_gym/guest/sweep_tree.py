"""Removes what a user owns from one mounted tree, depth first, by descriptors, without recursion."""

from __future__ import annotations

import errno
import fcntl
import os
import stat
import struct
import time

from .aliases import Aliases
from .left_over import Left
from .mounts import Mount
from .nofollow import Problem
from .patterns import Selection
from .tree_walk import Cursor

__all__ = ["OutOfTime", "Sweeper"]

_GET_FLAGS, _SET_FLAGS = 0x80086601, 0x40086602  # FS_IOC_GETFLAGS and _SETFLAGS of linux/fs.h, 64-bit
_IMMUTABLE, _APPEND_ONLY = 0x10, 0x20


class OutOfTime(Exception):
    """The deadline passed in the middle of the walk."""


class Sweeper:
    """One walk over one mount."""

    def __init__(self, uid: int, mount: Mount, aliases: Aliases, selection: Selection, left: Left, deadline: float):
        self._uid = uid
        self._mount = mount
        self._selection = selection
        self._left = left
        self._deadline = deadline
        self._parts = list(mount.parts)
        self._aliases = aliases
        self._settled_at = aliases.settled_at(selection.longest)

    def sweep(self, top: int) -> None:
        """Takes over the descriptor of the mount's top. Moved or OutOfTime end it early."""
        with Cursor(top, self._mount.path) as cursor:
            if any(self._selection.excluded(other) for other in self._aliases.of(self._parts)):
                return
            pending = [os.listdir(cursor.fd)]
            while pending:
                if time.monotonic() >= self._deadline:
                    raise OutOfTime
                if pending[-1]:
                    self._one(cursor, pending[-1].pop(), pending)
                else:
                    pending.pop()
                    if pending:
                        self._go_up(cursor)

    def _deciding(self, name: str) -> list[str]:
        """The leading components of an entry's path that patterns can look at."""
        return [*self._parts[: self._selection.longest], name][: self._selection.longest]

    def _other_names(self, name: str) -> list[list[str]]:
        return self._aliases.of([*self._parts[: self._settled_at], name])

    def _concerns(self, parts: list[str], name: str) -> bool:
        """By this mount's name and by all others. Far enough below, what holds for a directory holds for all in it."""
        if len(self._parts) >= self._settled_at:
            return True
        others = self._other_names(name)
        return self._selection.concerns(parts) and not any(self._selection.excluded(other) for other in others)

    def _one(self, cursor: Cursor, name: str, pending: list[list[str]]) -> None:
        parts = self._deciding(name)
        if not self._concerns(parts, name):
            return
        try:
            status = os.lstat(name, dir_fd=cursor.fd)
            if stat.S_ISDIR(status.st_mode):
                if status.st_dev == self._mount.device:  # another file system is a mount of its own
                    cursor.enter(name, status)
                    self._parts.append(name)
                    pending.append(os.listdir(cursor.fd))
            elif status.st_uid == self._uid and self._selection.chosen(parts):
                self._remove(cursor, name, directory=False)
        except FileNotFoundError:
            return
        except Problem as problem:  # exchanged between the look and the open: a living process is at work
            self._left.add(str(problem))

    def _go_up(self, cursor: Cursor) -> None:
        mine = cursor.status.st_uid == self._uid
        empty = not mine or _is_empty(cursor.fd)
        name = cursor.leave()
        self._parts.pop()
        parts = self._deciding(name)
        if not mine or not self._selection.chosen(parts) or self._aliases.is_mounted([*self._parts, name]):
            return
        if empty:
            self._remove(cursor, name, directory=True)
        elif not any(self._selection.spares_below(path) for path in (parts, *self._other_names(name))):
            self._add(cursor, name, "holds files of other owners, or new ones")

    def _add(self, cursor: Cursor, name: str, why: str | None) -> None:
        self._left.add(f"{self._aliases.familiar(cursor.shown(name))}: {why}")

    def _remove(self, cursor: Cursor, name: str, *, directory: bool) -> None:
        remove = os.rmdir if directory else os.unlink
        try:
            try:
                remove(name, dir_fd=cursor.fd)
            except PermissionError:
                _clear_flags(cursor, name)
                remove(name, dir_fd=cursor.fd)
            self._left.removed += 1
        except FileNotFoundError:
            return
        except OSError as error:
            self._add(cursor, name, error.strerror)


def _is_empty(descriptor: int) -> bool:
    with os.scandir(descriptor) as listing:
        return next(listing, None) is None


def _clear_flags(cursor: Cursor, name: str) -> None:
    """Take "immutable" and "append only" from an entry and its directory. Nothing else keeps root from removing."""
    _clear(cursor.fd)
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY
    if stat.S_IFMT(os.lstat(name, dir_fd=cursor.fd).st_mode) not in (stat.S_IFREG, stat.S_IFDIR):
        return
    descriptor = os.open(name, flags, dir_fd=cursor.fd)
    try:
        _clear(descriptor)
    finally:
        os.close(descriptor)


def _clear(descriptor: int) -> None:
    try:
        (flags,) = struct.unpack("=i", fcntl.ioctl(descriptor, _GET_FLAGS, bytes(4)))
        if flags & (_IMMUTABLE | _APPEND_ONLY):
            wanted = flags & ~(_IMMUTABLE | _APPEND_ONLY)
            fcntl.ioctl(descriptor, _SET_FLAGS, struct.pack("=i", wanted))
    except OSError as error:
        if error.errno not in (errno.ENOTTY, errno.EOPNOTSUPP):
            raise
