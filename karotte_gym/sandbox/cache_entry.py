"""What the cache is made of: its root, an entry's lock, and removing things without ever removing another's.

See `karotte_gym.sandbox.cache` for how these play together.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import re
import shutil
import stat
import subprocess
import time
from pathlib import Path
from types import TracebackType

from filelock import FileLock, Timeout

from karotte_gym.errors import CacheError

__all__ = [
    "KEY",
    "KINDS",
    "MODE_ROOT",
    "Lease",
    "cache_root",
    "discard",
    "lock_of",
    "remove_tree",
    "sweep",
    "temporary_of",
    "use",
]

KINDS = ("base", "rootfs", "image", "drive", "snapshot", "verdict")
KEY = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,127}")
TEMPORARY = ".tmp-"
TRASH = ".trash-"
MODE_ROOT = 0o700  # nobody else needs to see in; machines get what they need by descriptor


def cache_root() -> Path:
    """The cache directory, made when absent. CacheError says why it can't be used."""
    named = os.environ.get("KAROTTE_GYM_CACHE")
    if named:
        root = Path(named).expanduser().absolute()
    else:
        root = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache").absolute() / "karotte-gym"
    remedy = "set KAROTTE_GYM_CACHE to a directory of yours"
    try:
        root.mkdir(mode=MODE_ROOT, parents=True, exist_ok=True)
        facts = root.stat()
    except (FileExistsError, NotADirectoryError):
        raise CacheError(f"the cache directory {root} is not a directory; remove what is there or {remedy}") from None
    except OSError as error:
        raise CacheError(f"the cache directory {root} can't be made ({error.strerror}); {remedy}") from error
    if not os.access(root, os.R_OK | os.W_OK | os.X_OK):
        raise CacheError(f"the cache directory {root} is not writable; change its permissions or {remedy}")
    if facts.st_uid not in (0, os.geteuid()) or facts.st_mode & stat.S_IWOTH:
        # Kernels and disks are started from here: whoever can write it decides what a machine is.
        raise CacheError(f"the cache directory {root} can be written by others; chmod o-w and own it, or {remedy}")
    return root


class Lease:
    """A shared lock on an entry: while it is held (or any forked child holds it) `prune` leaves the entry alone."""

    def __init__(self, path: Path, descriptor: int):
        self.path = path
        self._descriptor = descriptor

    def release(self) -> None:
        """Give the entry free; idempotent."""
        if self._descriptor >= 0:
            descriptor, self._descriptor = self._descriptor, -1
            os.close(descriptor)

    def __enter__(self) -> Path:
        return self.path

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.release()

    def __del__(self) -> None:
        self.release()


def use(path: Path) -> Lease:
    """Hold an entry against `prune` and stamp it as used now: ``with use(path) as path:`` or keep and `release()`."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError as error:
        raise CacheError(f"the cache entry {path} is gone ({error.strerror}); it is rebuilt on the next try") from error
    lease = Lease(path, descriptor)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH)
        held, named = os.fstat(descriptor), os.stat(path)
        if (held.st_dev, held.st_ino) != (named.st_dev, named.st_ino):
            raise FileNotFoundError(errno.ENOENT, "replaced", str(path))
        os.utime(descriptor)
    except OSError as error:
        lease.release()
        raise CacheError(f"the cache entry {path} was removed meanwhile; it is rebuilt on the next try") from error
    return lease


def discard(path: Path) -> None:
    """Remove an entry, used or not; what already has it open keeps it. Nothing happens when it is not there."""
    if os.path.lexists(path):
        trash = path.parent / f"{TRASH}{path.name}-{os.getpid()}-{time.monotonic_ns()}"
        with contextlib.suppress(FileNotFoundError):
            os.rename(path, trash)
        remove_tree(trash)


def lock_of(target: Path) -> FileLock:
    """The lock that whoever builds `target` holds."""
    return FileLock(target.parent / f".lock-{target.name}", mode=0o600)


def temporary_of(target: Path) -> Path:
    """Where `target` is built."""
    return target.parent / f"{TEMPORARY}{target.name}"


def sweep(directory: Path) -> None:
    """Remove what dead builders left: a temporary directory whose lock nobody holds, and all trash."""
    for path in list(directory.iterdir()) if directory.is_dir() else ():
        if path.name.startswith(TRASH):
            remove_tree(path)
        elif path.name.startswith(TEMPORARY):
            lock = lock_of(directory / path.name.removeprefix(TEMPORARY))
            with contextlib.suppress(Timeout), lock.acquire(timeout=0):
                remove_tree(path)


def remove_tree(path: Path) -> None:
    """Remove a tree, directories without write permission included (a root file system has such)."""
    if not path.is_dir() or path.is_symlink():
        path.unlink(missing_ok=True)
        return
    try:
        _open_up(path)
        shutil.rmtree(path)
    except FileNotFoundError:  # another process removes the same rest
        pass
    except PermissionError:
        if os.geteuid() == 0:
            raise
        _remove_as_mapped_root(path)


def _open_up(path: Path) -> None:
    path.chmod(0o700)
    for top, names, _ in os.walk(path):
        for name in names:
            if not os.path.islink(os.path.join(top, name)):  # chmod would follow it out of the cache
                os.chmod(os.path.join(top, name), 0o700)


def _remove_as_mapped_root(path: Path) -> None:
    """A container build without root leaves files of mapped users, which only the root of that mapping may remove."""
    argv = ["/usr/bin/unshare", "--user", "--map-root-user", "--map-auto", "/bin/rm", "-rf", "--", str(path)]
    done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    if done.returncode:
        raise CacheError(f"{path} can't be removed ({done.stderr.strip()[:200]}); remove it as root")
