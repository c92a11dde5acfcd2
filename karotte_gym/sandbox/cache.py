"""The cache: directories that are built once, published whole, and never changed afterwards.

``<root>/<kind>/<key>/`` is an entry, `key` a hash of everything that its content depends on. An entry is built in
``<root>/<kind>/.tmp-<key>`` under an exclusive lock of that key, described by a ``manifest.json``, synced and renamed
into place, so whoever finds an entry finds all of it. A build that was killed leaves only its temporary directory;
the lock that protected it is gone with its process, and the next build of any key of that kind removes it.

Users of an entry hold a shared `flock` on the entry's directory (`use`); `prune` takes it exclusively without
waiting, so nothing is removed under a living machine. The directory's own modification time is its last-used stamp.
"""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Callable, Iterator
from pathlib import Path

from filelock import Timeout

from karotte_gym.errors import CacheError
from karotte_gym.sandbox import manifest
from karotte_gym.sandbox.cache_entry import (
    KEY,
    KINDS,
    MODE_ROOT,
    Lease,
    cache_root,
    discard,
    lock_of,
    remove_tree,
    sweep,
    temporary_of,
    use,
)
from karotte_gym.sandbox.cache_prune import Entry, enforce_cap, list_entries, prune
from karotte_gym.sandbox.progress import Progress, silent

__all__ = [
    "KINDS",
    "Entry",
    "Lease",
    "cache_root",
    "discard",
    "find",
    "list_entries",
    "obtain",
    "prune",
    "publish",
    "use",
    "verify",
]


def publish(kind: str, key: str, build: Callable[[Path], None], progress: Progress = silent) -> Path:
    """The entry of this key, built by ``build(empty directory)`` when absent or damaged.

    Two callers of one key wait for each other; `build` runs once. What `build` raises comes through and leaves
    nothing; a full disk becomes a CacheError. Files keep the modes that `build` gave them.
    """
    with _full_disk_explained(kind, key):
        target = _path_of(kind, key)
        if _is_sound(target):
            return target
        with _locked(target, progress):
            if not _is_sound(target):
                sweep(target.parent)
                remove_tree(temporary_of(target))  # ours by the lock, so its builder is dead
                discard(target)
                _build(target, build)
    enforce_cap()
    return target


def obtain(kind: str, key: str, build: Callable[[Path], None], progress: Progress = silent) -> Lease:
    """`publish` and `use` as one, so that no `prune` comes between."""
    for _attempt in range(3):
        path = publish(kind, key, build, progress)
        with contextlib.suppress(CacheError):
            return use(path)
    return use(publish(kind, key, build, progress))


def find(kind: str, key: str) -> Path | None:
    """The entry of this key when it is there and whole; nothing is built."""
    target = _path_of(kind, key)
    return target if _is_sound(target) else None


def verify(path: Path) -> list[str]:
    """Read every byte of an entry and name what differs from its manifest; [] when it is whole."""
    return manifest.differences(path, thorough=True)


@contextlib.contextmanager
def _full_disk_explained(kind: str, key: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        raise CacheError(
            f"no space left in {cache_root()} while building {kind} {key[:12]}; "
            "free some (`karotte-gym cache prune`) or set KAROTTE_GYM_CACHE to a larger disk"
        ) from error


def _path_of(kind: str, key: str) -> Path:
    if kind not in KINDS or not KEY.fullmatch(key):
        raise ValueError(f"no cache entry can be named {kind!r}/{key!r}")
    directory = cache_root() / kind
    directory.mkdir(mode=MODE_ROOT, exist_ok=True)
    return directory / key


def _is_sound(path: Path) -> bool:
    if not path.is_dir() or path.is_symlink() or manifest.differences(path, thorough=False):
        return False
    with contextlib.suppress(FileNotFoundError):
        os.utime(path)
        return True
    return False


@contextlib.contextmanager
def _locked(target: Path, progress: Progress) -> Iterator[None]:
    lock = lock_of(target)
    try:
        lock.acquire(timeout=0)
    except Timeout:
        progress(f"waiting for another process that builds {target.parent.name} {target.name[:12]}", 0.0)
        lock.acquire()
    try:
        yield
    finally:
        lock.release()


def _build(target: Path, build: Callable[[Path], None]) -> None:
    temporary = temporary_of(target)
    temporary.mkdir(mode=0o755)
    try:
        build(temporary)
        manifest.write(temporary, kind=target.parent.name, key=target.name)
        os.rename(temporary, target)
        manifest.sync_directory(target.parent)
    except BaseException:
        remove_tree(temporary)
        raise
