"""Run directories: what one living machine keeps on the host's disk, and the removal of what dead harnesses left.

``<base>/<pid>-<start time>-<number>`` is private and holds the machine's scratch overlay, nothing else: sockets are
anonymous pairs, everything else is passed by descriptor. The base is in the cache unless ``KAROTTE_GYM_RUN`` names
another place: most runtime directories are a tmpfs, and a scratch disk of gigabytes does not belong in memory.

A directory is stale when its owner is gone: no process of that pid and start time (the second tells a recycled pid),
and nobody holds its lock (an owner in another PID namespace, as between two containers, is seen by that alone).
"""

from __future__ import annotations

import contextlib
import fcntl
import itertools
import os
import re
import shutil
import threading
from pathlib import Path

from karotte_gym.errors import CacheError
from karotte_gym.sandbox import cache
from karotte_gym.sandbox.directory_lock import is_held

__all__ = ["RunDirectory", "base", "create", "remove_stale"]

_NAME = re.compile(r"(\d+)-(\d+)-\d+")
_numbers = itertools.count()
_swept = threading.Event()


class RunDirectory:
    """A private directory with a held lock; `close` removes it."""

    def __init__(self, path: Path):
        self.path = path
        self._lock_fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        fcntl.flock(self._lock_fd, fcntl.LOCK_SH)

    def close(self) -> None:
        """Remove it and give the lock free; idempotent."""
        shutil.rmtree(self.path, ignore_errors=True)  # the warden removes it as well when the machine ends
        self.release()

    def release(self) -> None:
        """Forget it without removing it: what a forked child does."""
        fd, self._lock_fd = self._lock_fd, -1
        if fd >= 0:
            os.close(fd)


def base() -> Path:
    """Where run directories are: ``KAROTTE_GYM_RUN`` or ``run`` in the cache. Private, made when absent."""
    named = os.environ.get("KAROTTE_GYM_RUN")
    path = Path(named).expanduser().absolute() if named else cache.cache_root() / "run"
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        facts = path.stat()
    except OSError as error:
        raise CacheError(f"no run directory can be made in {path} ({error.strerror}); set KAROTTE_GYM_RUN") from error
    if facts.st_uid != os.geteuid() or facts.st_mode & 0o022:
        raise CacheError(f"{path} is not private to this user; set KAROTTE_GYM_RUN to a directory of yours")
    return path


def create() -> RunDirectory:
    """A new run directory of this process; the first one of a process removes the stale ones first."""
    directory = base()
    if not _swept.is_set():
        _swept.set()
        remove_stale()
    path = directory / f"{os.getpid()}-{_start_time(os.getpid())}-{next(_numbers)}"
    shutil.rmtree(path, ignore_errors=True)  # of another PID namespace's process with our pid and start time
    path.mkdir(mode=0o700)
    return RunDirectory(path)


def remove_stale() -> list[Path]:
    """Remove the directories of dead owners; returns them."""
    gone = []
    for path in base().iterdir():
        named = _NAME.fullmatch(path.name)
        if named and not _is_owned(path, int(named[1]), named[2]):
            shutil.rmtree(path, ignore_errors=True)
            gone.append(path)
    return gone


def _is_owned(path: Path, pid: int, start_time: str) -> bool:
    if _start_time(pid) == start_time:
        return True
    try:
        return is_held(path)
    except FileNotFoundError:
        return True  # removed by its owner at this moment


def _start_time(pid: int) -> str:
    """Start time of a process in clock ticks since boot, "" when there is none."""
    with contextlib.suppress(OSError):
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
        return text.rpartition(")")[2].split()[19]  # field 22 of proc(5), counted after the name
    return ""
