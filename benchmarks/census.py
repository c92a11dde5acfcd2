"""What a harness process holds and leaves on the host, counted before and after: the measure of "nothing left over"."""

from __future__ import annotations

import ctypes
import os
import tempfile
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import psutil

from karotte_gym.sandbox import rundir

__all__ = ["Census", "take"]


@dataclass(frozen=True)
class Census:
    """Counts at one moment; `growth` names what is more than it was."""

    descriptors: Counter[str]  # by what they point at, sockets and pipes without their numbers
    children: Counter[str]
    threads: int
    namespaces: int
    temporary: frozenset[str]  # files of ours in the temporary directory
    run_directories: frozenset[str]
    memory_bytes: int  # resident, of this process

    def growth(self, before: Census, *, memory_slack_bytes: int) -> list[str]:
        """One sentence for each kind of thing that there is more of than before."""
        found = [f"descriptor {what} (+{n})" for what, n in (self.descriptors - before.descriptors).items()]
        found += [f"process {what} (+{n})" for what, n in (self.children - before.children).items()]
        found += [f"temporary {name}" for name in sorted(self.temporary - before.temporary)]
        found += [f"run directory {name}" for name in sorted(self.run_directories - before.run_directories)]
        if self.threads > before.threads:
            found.append(f"threads: {before.threads} -> {self.threads}")
        if self.namespaces > before.namespaces:
            found.append(f"namespaces: {before.namespaces} -> {self.namespaces}")
        if self.memory_bytes > before.memory_bytes + memory_slack_bytes:
            found.append(f"resident memory: {before.memory_bytes >> 20} -> {self.memory_bytes >> 20} MiB")
        return found


def take() -> Census:
    """Count now. Only processes that descend from this one and files that bear our name are looked at."""
    ctypes.CDLL(None).malloc_trim(0)  # what the allocator keeps of a flood that is over is no growth
    me = psutil.Process()
    children = me.children(recursive=True)
    owners = {str(process.pid) for process in [me, *children]}  # other runs on this host have theirs
    return Census(
        descriptors=Counter(_target(fd) for fd in os.listdir("/proc/self/fd")),
        children=Counter(_name(child) for child in children),
        threads=me.num_threads(),
        namespaces=len({namespace for child in [me, *children] for namespace in _namespaces(child.pid)}),
        temporary=frozenset(name for name in os.listdir(tempfile.gettempdir()) if name.startswith("karotte")),
        run_directories=frozenset(path.name for path in rundir.base().iterdir() if path.name.split("-")[0] in owners),
        memory_bytes=me.memory_info().rss,
    )


def _target(fd: str) -> str:
    try:
        return os.readlink(f"/proc/self/fd/{fd}").partition(":[")[0]
    except FileNotFoundError:
        return "closed"  # the listing's own descriptor


def _name(process: psutil.Process) -> str:
    try:
        return process.name()
    except psutil.NoSuchProcess:
        return "ended"


def _namespaces(pid: int) -> list[str]:
    directory = Path(f"/proc/{pid}/ns")
    try:
        return [os.readlink(path) for path in directory.iterdir()]
    except OSError:
        return []  # the process ended between the listing and here
