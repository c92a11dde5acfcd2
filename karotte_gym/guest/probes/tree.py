"""What a probe looks at: a file tree (`Tree`) that is walked once for all probes, and the student it is judged for.

`root` is "/" in a machine and a directory in a test: every file probe can be pointed at a broken tree and be seen to
find what is broken. Rights are computed from owner and mode and not asked of the kernel: an image must not rely on the
read-only mount that happens to cover its mistakes. (What the kernel really permits is asked by the confinement probes.)
"""

from __future__ import annotations

import bisect
import itertools
import os
import stat
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

__all__ = ["WORKSPACE", "Entry", "Finding", "Probe", "Tree", "inside"]

WORKSPACE = ("/workdir", "/tmp", "/var/tmp", "/dev/shm", "/dev/mqueue", "/dev/pts")  # the student's by design
PRUNED = ("/proc", "/sys", "/dev")  # the kernel's own objects; probes of their own attempt what matters there
MAX_ENTRIES = 400_000  # the base image has 9,000
MAX_WALK_S = 120.0  # the base image takes 2 s under emulation


class Finding(NamedTuple):
    """One thing that is wrong (a sentence that names the path) and what to do about it (a sentence)."""

    finding: str
    fix: str


class Entry(NamedTuple):
    """One file, by its path in the machine."""

    path: str
    name: str
    mode: int
    uid: int
    gid: int
    size: int
    device: int
    is_file: bool  # fields and no properties: sixty probes ask it of ten thousand entries, in an emulator
    is_directory: bool

    @property
    def is_program(self) -> bool:
        return self.is_file and bool(self.mode & 0o111)


@dataclass
class Tree:
    """A tree as the student (or root, for what only root may read) sees it. Files are read through `read` only."""

    root: str = "/"
    uid: int = 1000
    gid: int = 1000
    one_disk: bool = False  # stay on the disk of `root`: what a machine mounts over it is not the image
    program: dict[str, Any] = field(default_factory=dict)  # what a program saw at its start (`program.py`)
    whole: bool = field(default=False, init=False)  # whether the walk came to its end
    _entries: list[Entry] | None = field(default=None, init=False)
    _outside: list[Entry] | None = field(default=None, init=False)
    _attributes: list[tuple[Entry, list[str]]] | None = field(default=None, init=False)

    def real(self, path: str) -> str:
        """Where `path` of the machine is for this process."""
        return self.root.rstrip("/") + path or "/"

    def entries(self) -> list[Entry]:
        """Everything that this process may see, sorted by path, without /proc, /sys and /dev. Walked once."""
        if self._entries is None:
            self._entries = sorted(self._walk())
        return self._entries

    def outside(self) -> list[Entry]:
        """`entries` outside the workspace, links left out: they have no rights of their own."""
        if self._outside is None:
            kept = (entry for entry in self.entries() if not stat.S_ISLNK(entry.mode))
            self._outside = [entry for entry in kept if not inside(entry.path, WORKSPACE)]
        return self._outside

    def below(self, *tops: str) -> Iterator[Entry]:
        """`entries` that are one of `tops` or under one."""
        entries = self.entries()
        for top in tops:
            for first in (top, f"{top}/"):  # what sorts between them, like "top-2", is neither
                start = bisect.bisect_left(entries, first, key=_path)
                yield from itertools.takewhile(_starts(top, first), itertools.islice(entries, start, None))

    def attributes(self) -> list[tuple[Entry, list[str]]]:
        """Files and directories outside the workspace that have extended attributes, with their names."""
        if self._attributes is None:
            named = ((entry, self._attribute_names(entry)) for entry in self.outside())
            self._attributes = [(entry, names) for entry, names in named if names]
        return self._attributes

    def entry(self, path: str) -> Entry | None:
        """One entry, links followed; None when there is none or it can't be seen."""
        try:
            status = os.stat(self.real(path))
        except OSError:
            return None
        return _entry(path, status)

    def read(self, path: str, max_bytes: int = 1024 * 1024) -> bytes | None:
        """The beginning of a regular file; None when there is none or it can't be read. Never waits for a FIFO."""
        try:
            descriptor = os.open(self.real(path), os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
        except OSError:
            return None
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            os.close(descriptor)
            return None
        with open(descriptor, "rb") as stream:
            return stream.read(max_bytes)

    def lines(self, path: str) -> list[str]:
        """Lines of a settings file without comments and blanks; [] when there is none."""
        text = (self.read(path) or b"").decode("utf-8", "replace")
        stripped = (line.strip() for line in text.splitlines())
        return [line for line in stripped if line and not line.startswith("#")]

    def names(self, path: str) -> list[str]:
        """Names in a directory, sorted; [] when there is none or it can't be listed."""
        try:
            return sorted(os.listdir(self.real(path)))
        except OSError:
            return []

    def may(self, entry: Entry, wanted: int) -> bool:
        """Whether owner and mode give the student `wanted` (4 read, 2 write, 1 search)."""
        shift = 6 if entry.uid == self.uid else 3 if entry.gid == self.gid else 0
        return bool(entry.mode >> shift & wanted)

    def unsafe(self, entry: Entry) -> str:
        """Why root must not trust this entry: "" when it is root's and only root can write it."""
        if entry.uid != 0:
            return f"belongs to uid {entry.uid}"
        return "is writable by others than root" if self.may(entry, 2) or entry.mode & 0o002 else ""

    def unsafe_path(self, path: str) -> str:
        """The same for `path` and every directory above it, with the one that is unsafe named."""
        while path:
            entry = self.entry(path)
            if entry is not None and (why := self.unsafe(entry)):
                return f"{path} {why}"
            path = path.rpartition("/")[0]
        return ""

    def _attribute_names(self, entry: Entry) -> list[str]:
        try:
            return os.listxattr(self.real(entry.path), follow_symlinks=False)
        except OSError:  # gone, or a file system without attributes
            return []

    def _walk(self) -> list[Entry]:
        found: list[Entry] = []
        stack = [""]
        deadline = time.monotonic() + MAX_WALK_S
        disk = os.stat(self.real("/")).st_dev
        while stack and len(found) < MAX_ENTRIES and time.monotonic() < deadline:
            for entry, device in self._children(stack.pop()):
                found.append(entry)
                if entry.is_directory and entry.path not in PRUNED and (device == disk or not self.one_disk):
                    stack.append(entry.path)
        self.whole = not stack
        return found

    def _children(self, top: str) -> Iterator[tuple[Entry, int]]:
        try:
            names = os.listdir(self.real(top or "/"))
        except OSError:  # closed to this user, or gone: what it can't list it can't reach by walking
            return
        for name in names:
            path = f"{top}/{name}"
            try:
                status = os.lstat(self.real(path))
            except OSError:  # gone since
                continue
            yield _entry(path, status), status.st_dev


Probe = Callable[[Tree], Iterator[Finding]]


def inside(path: str, tops: tuple[str, ...]) -> bool:
    """Whether `path` is one of `tops` or under one."""
    return any(path == top or path.startswith(top + "/") for top in tops)


def _entry(path: str, status: os.stat_result) -> Entry:
    mode, name = status.st_mode, path.rpartition("/")[2]
    kind = stat.S_IFMT(mode)
    owner = (status.st_uid, status.st_gid, status.st_size, status.st_rdev)
    return Entry(path, name, mode, *owner, kind == stat.S_IFREG, kind == stat.S_IFDIR)


def _path(entry: Entry) -> str:
    return entry.path


def _starts(top: str, first: str) -> Callable[[Entry], bool]:
    if first == top:
        return lambda entry: entry.path == top
    return lambda entry: entry.path.startswith(first)
