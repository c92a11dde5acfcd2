"""Which writable file systems there are, as one process's mount namespace sees them."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass

__all__ = ["Mount", "writable_mounts"]

# Their files are the kernel's own objects: nothing that a user left there takes space or survives it.
_KERNEL = ("proc", "sysfs", "cgroup", "cgroup2", "devpts", "securityfs", "debugfs", "tracefs", "bpf", "pstore")
_OTHERS = ("configfs", "fusectl", "binfmt_misc", "nsfs", "efivarfs", "selinuxfs", "autofs", "rpc_pipefs")
_VIRTUAL = frozenset(_KERNEL + _OTHERS)


@dataclass(frozen=True, slots=True)
class Mount:
    """One mount point. `root` is what opens it: "/" or the root of another process's namespace."""

    path: str
    device: int
    root: str
    inner: tuple[str, ...]  # which directory of the file system is seen here; () is all of it

    @property
    def parts(self) -> tuple[str, ...]:
        """Components of the path."""
        return _components(self.path)


def writable_mounts(pid: int | None = None) -> list[Mount]:
    """Mounts that files can be written to, virtual ones left out, parents first. `pid` None is this process.

    The list comes from mountinfo and not from descending, so a disk mounted below /proc or /dev is found as well.
    """
    who = "self" if pid is None else str(pid)
    root = "/" if pid is None else f"/proc/{pid}/root"
    with open(f"/proc/{who}/mountinfo", "rb") as stream:
        lines = stream.read().splitlines()
    found = [mount for line in lines if (mount := _parse(line, root)) is not None]
    return sorted(found, key=lambda mount: mount.path)


def _parse(line: bytes, root: str) -> Mount | None:
    fields = line.split(b" ")
    dash = fields.index(b"-")
    kind, options = fields[dash + 1].decode(), fields[dash + 3].split(b",")
    if kind in _VIRTUAL or b"ro" in options or b"ro" in fields[5].split(b","):
        return None
    major, minor = fields[2].split(b":")
    path, inner = _unescaped(fields[4]), _unescaped(fields[3])
    if not os.path.isdir(f"{root.rstrip('/')}{path}"):
        return None  # a single file that is mounted over another one; its file system is mounted elsewhere or nowhere
    return Mount(path, os.makedev(int(major), int(minor)), root, _components(inner))


def _unescaped(field: bytes) -> str:
    return os.fsdecode(re.sub(rb"\\([0-7]{3})", lambda match: bytes([int(match[1], 8)]), field))


def _components(path: str) -> tuple[str, ...]:
    return tuple(part for part in path.split("/") if part)
