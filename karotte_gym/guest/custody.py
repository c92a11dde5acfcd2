"""Takes a copy of the submission and streams it to the host: the `collect` call.

By now every process of the student is dead, and this module checks that it is so; what is on the disk can't change
any more. It can still be anything: links to the key, FIFOs that block, devices, terabytes of holes, a thousand
levels, names that are no text. Each named path is opened from "/" without following anything (`nofollow`), the tree
below is walked with one descriptor (`tree_walk`), and what is no plain file or directory of the student's is refused
with a sentence that names the path. The host checks all of it again.

Whose files count: a regular file must be the student's own, whatever its number of names, or else have one name and be
readable by everyone. So an author's hook can leave a file for the student to hand in, and the student can't use a hard
link or a rename to carry off what it may not read.
"""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from typing import Any

from .calls import Call, Handler, Machine, Refused
from .copy_file import send_file
from .nofollow import MAX_PATH_BYTES, Problem, kind_of, open_directory, open_inode, open_parent, split
from .process_table import living
from .tree_walk import Cursor, Moved, identity

__all__ = ["METHODS", "STUDENT_UID", "WORKSPACE", "Caps", "Collector"]

STUDENT_UID = 1000
WORKSPACE = "/workdir"  # lies on the scratch disk, the only file system that a submission can come from
MAX_PATHS = 64
MAX_SUBMITTED_PATH_BYTES = MAX_PATH_BYTES - 128  # room for the directory that a grader sees it under


@dataclass(frozen=True, slots=True)
class Caps:
    """What is accepted; the fields of the call."""

    max_file_bytes: int
    max_total_bytes: int
    max_entries: int
    max_depth: int


class Collector:
    """One collection: counts against the caps over all named paths together."""

    def __init__(self, call: Call, caps: Caps, *, allow_symlinks: bool, device: int, owner: int = STUDENT_UID):
        self._part = call.part
        self._caps = caps
        self._allow_symlinks = allow_symlinks
        self._device = device
        self._owner = owner
        self.entries = 0
        self.total_bytes = 0

    def collect(self, path: str) -> None:
        """Send one named path: a file, a tree, or that it is missing. Problem when it is refused."""
        parent, name = open_parent(path)
        try:
            try:
                descriptor, status = open_inode(name, parent, path)
            except Problem as problem:
                if problem.reason == "missing":
                    self._part({"missing": path}, b"")
                    return
                raise
            try:
                self._entry(descriptor, status, path)
            finally:
                os.close(descriptor)
            if stat.S_ISDIR(status.st_mode):
                self._tree(Cursor(open_directory(name, parent, path), path), status)
        finally:
            os.close(parent)

    def _tree(self, cursor: Cursor, expected: os.stat_result) -> None:
        """Depth first and sorted, so that the same tree always gives the same stream."""
        with cursor:
            if identity(cursor.status) != identity(expected):
                raise Problem("busy", f"{cursor.path} was exchanged while it was read")
            pending = [self._names(cursor)]
            while pending:
                if pending[-1]:
                    self._one(cursor, pending[-1].pop(), pending)
                else:
                    pending.pop()
                    if pending:
                        cursor.leave()

    def _one(self, cursor: Cursor, name: str, pending: list[list[str]]) -> None:
        path = cursor.path_of(name)
        descriptor, status = open_inode(name, cursor.fd, path)
        try:
            if stat.S_ISLNK(status.st_mode) and self._allow_symlinks:
                self._count(path)  # left out of the copy, never followed
                return
            self._entry(descriptor, status, path)
        finally:
            os.close(descriptor)
        if stat.S_ISDIR(status.st_mode):
            if cursor.depth + 1 >= self._caps.max_depth and _has_entries(cursor, name, path):
                raise Problem("kind", f"{path} is nested deeper than the {self._caps.max_depth} levels allowed")
            cursor.enter(name, status)
            pending.append(self._names(cursor))

    def _entry(self, descriptor: int, status: os.stat_result, path: str) -> None:
        """Check one directory or file and send it."""
        self._count(path)
        mode = status.st_mode
        if stat.S_ISLNK(mode):
            raise Problem("link", f"{path} is a symbolic link, which is never followed")
        if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
            raise Problem("kind", f"{path} is a {kind_of(mode)} and not a regular file")
        self._check_device(status, path)
        if stat.S_ISDIR(mode):
            self._part({"dir": {"path": path, "mode": mode & 0o777}}, b"")
            return
        self._check_owner(status, path)
        self._check_size(status.st_size, path)
        send_file(descriptor, status, path, self._part)

    def _names(self, cursor: Cursor) -> list[str]:
        """Names of the directory in reverse order; stops reading as soon as there are more than the cap allows."""
        room = self._caps.max_entries - self.entries
        names: list[str] = []
        with os.scandir(cursor.fd) as listing:
            for entry in listing:
                if len(names) >= room:
                    raise self._too_many(cursor.path)
                _check_name(entry.name, cursor.path)
                names.append(entry.name)
        return sorted(names, reverse=True)

    def _count(self, path: str) -> None:
        self.entries += 1
        if self.entries > self._caps.max_entries:
            raise self._too_many(path)

    def _too_many(self, path: str) -> Problem:
        return Problem("kind", f"{path} brings the submission to more than {self._caps.max_entries} entries, the limit")

    def _check_device(self, status: os.stat_result, path: str) -> None:
        if status.st_dev != self._device:
            raise Problem("kind", f"{path} lies on another mount than the workspace, or is no regular file of its disk")

    def _check_owner(self, status: os.stat_result, path: str) -> None:
        if status.st_uid == self._owner:
            return
        if status.st_nlink != 1 or not status.st_mode & stat.S_IROTH:
            raise Problem("kind", f"{path} is a hard link to, or a private file of, another owner")

    def _check_size(self, size: int, path: str) -> None:
        caps = self._caps
        if size > caps.max_file_bytes:
            raise Problem("kind", f"{path} is too large: {size} bytes, the limit for one file is {caps.max_file_bytes}")
        self.total_bytes += size
        if self.total_bytes > caps.max_total_bytes:
            raise Problem("kind", f"{path} brings the submission over the total limit of {caps.max_total_bytes} bytes")


def _has_entries(cursor: Cursor, name: str, path: str) -> bool:
    descriptor = open_directory(name, cursor.fd, path)
    try:
        with os.scandir(descriptor) as listing:
            return next(listing, None) is not None
    finally:
        os.close(descriptor)


def _check_name(name: str, directory: str) -> None:
    """Text without control characters: such a name could forge lines of a record, and no task asks for one."""
    try:
        name.encode("utf-8")
    except UnicodeEncodeError:
        raise Problem("kind", f"{directory} holds a name that is no UTF-8 text: {os.fsencode(name)!r}") from None
    if any(ord(letter) < 32 or 127 <= ord(letter) < 160 or letter in "\u2028\u2029" for letter in name):
        raise Problem("kind", f"{directory} holds a name with a control character: {name!r}")
    if len(os.fsencode(f"{directory}/{name}")) >= MAX_SUBMITTED_PATH_BYTES:
        raise Problem("kind", f"a path under {directory[:200]}... is longer than {MAX_SUBMITTED_PATH_BYTES - 1} bytes")


def _collect(machine: Machine, call: Call) -> tuple[dict[str, Any], bytes]:
    paths, caps, allow_symlinks = _parameters(call.params)
    survivors = living(STUDENT_UID)
    if machine.session is not None or survivors:
        raise Refused("session-running", f"end the session first; {len(survivors)} of the student's processes live")
    device = os.stat(WORKSPACE, follow_symlinks=False).st_dev
    collector = Collector(call, caps, allow_symlinks=allow_symlinks, device=device)
    try:
        for path in paths:
            collector.collect(path)
    except Problem as problem:
        raise Refused("custody", str(problem)) from problem
    except Moved as moved:
        raise Refused("custody", f"{moved} was moved while it was read") from moved
    return {"entries": collector.entries, "bytes": collector.total_bytes}, b""


def _parameters(params: dict[str, Any]) -> tuple[list[str], Caps, bool]:
    paths = params.get("paths")
    if not isinstance(paths, list) or len(paths) > MAX_PATHS:
        raise Refused("bad-params", f"paths must be a list of at most {MAX_PATHS}")
    try:
        named = [split(path) for path in paths]
    except ValueError as error:
        raise Refused("bad-params", str(error)) from error
    if any(a == b[: len(a)] for i, a in enumerate(named) for j, b in enumerate(named) if i != j):
        raise Refused("bad-params", "one of the paths is, or lies in, another one")
    figures = {name: params.get(name) for name in Caps.__slots__}
    for name, value in figures.items():
        if isinstance(value, bool) or not isinstance(value, int) or value < 0:
            raise Refused("bad-params", f"{name} must be a number of at least 0")
    return paths, Caps(**figures), bool(params.get("allow_symlinks", False))  # type: ignore[arg-type]


METHODS: dict[str, Handler] = {"collect": _collect}
