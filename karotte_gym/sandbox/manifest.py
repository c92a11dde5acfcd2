"""``manifest.json`` of a cache entry: what belongs to it, to tell a whole entry from a damaged or foreign one.

The quick check compares names, sizes and modification times and reads no content, unless a time differs: then the
content decides. The thorough check reads everything. Neither defends against someone who may write the cache, only
against accidents: a copied, truncated, half-restored or edited entry.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
from pathlib import Path
from typing import Any

__all__ = ["NAME", "differences", "digest", "sync_directory", "write"]

NAME = "manifest.json"
FORMAT = 1
BLOCK_BYTES = 64 * 1024
_ZEROS = bytes(BLOCK_BYTES)


def write(directory: Path, **about: str) -> None:
    """Describe every file under `directory` and sync all of it to disk."""
    files: dict[str, Any] = {}
    for name in _files(directory):
        path = directory / name
        with open(path, "rb", opener=_open_nofollow) as file:
            os.fsync(file.fileno())
            facts = os.fstat(file.fileno())
            files[name] = {"size": facts.st_size, "mtime_ns": facts.st_mtime_ns, "sha256": digest(file.fileno())}
    text = json.dumps({"format": FORMAT, **about, "files": files}, indent=1, sort_keys=True)
    with open(directory / NAME, "w", encoding="utf-8") as file:
        file.write(text + "\n")
        file.flush()
        os.fsync(file.fileno())
    for top, _, _ in os.walk(directory):
        sync_directory(Path(top))


def differences(directory: Path, *, thorough: bool) -> list[str]:
    """Sentences about what is not as the manifest says; [] when the entry is whole."""
    try:
        text = json.loads((directory / NAME).read_text(encoding="utf-8"))
        expected = dict(text["files"])
        if text["format"] != FORMAT or text["key"] != directory.name:
            return [f"{directory / NAME} belongs to another entry or another version"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        return [f"{directory / NAME} can't be read: {error}"]
    present = set(_files(directory)) - {NAME}
    found = [f"{directory / name} does not belong there" for name in sorted(present - set(expected))]
    found += [f"{directory / name} is missing" for name in sorted(set(expected) - present)]
    for name in sorted(present & set(expected)):
        if not _is_as_said(directory / name, expected[name], thorough):
            found.append(f"{directory / name} was changed or damaged")
    return found


def digest(descriptor: int) -> str:
    """SHA-256 over size and all non-zero blocks with their offsets: a sparse file costs what it holds, not its size."""
    size = os.fstat(descriptor).st_size
    running, offset = hashlib.sha256(size.to_bytes(8, "big")), 0
    while offset < size:
        try:
            offset = os.lseek(descriptor, offset, os.SEEK_DATA) // BLOCK_BYTES * BLOCK_BYTES
        except OSError:  # ENXIO: only a hole is left
            break
        block = os.pread(descriptor, BLOCK_BYTES, offset)
        if block != _ZEROS[: len(block)]:
            running.update(offset.to_bytes(8, "big"))
            running.update(block)
        offset += BLOCK_BYTES
    return running.hexdigest()


def sync_directory(path: Path) -> None:
    """Make the names in a directory durable."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _files(directory: Path) -> list[str]:
    return sorted(os.path.relpath(os.path.join(top, name), directory) for top, _, names in os.walk(directory) for name in names)


def _is_as_said(path: Path, said: Any, thorough: bool) -> bool:
    try:
        with open(path, "rb", opener=_open_nofollow) as file:
            facts = os.fstat(file.fileno())
            if not stat.S_ISREG(facts.st_mode) or facts.st_size != said["size"]:
                return False
            if facts.st_mtime_ns == said["mtime_ns"] and not thorough:
                return True
            return digest(file.fileno()) == said["sha256"]
    except (OSError, KeyError, TypeError):
        return False


def _open_nofollow(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK)
