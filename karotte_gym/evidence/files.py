"""Opening what a run directory holds: regular files only, no link followed on the way, never more than was allowed.

Who checks a run directory may have got it from somebody else. A link in it could make `verify` read, and report digests
of, any file of its user; a pipe could hold it up for ever; a huge record could fill its memory.
"""

from __future__ import annotations

import hashlib
import os
import stat
from pathlib import Path

from karotte_gym.errors import EvidenceError

__all__ = ["BLOCK_BYTES", "difference", "open_below", "read_bounded"]

_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
BLOCK_BYTES = 1024 * 1024


def open_below(directory: Path, name: str) -> int:
    """Descriptor of the regular file `name` ("a" or "a/b") below `directory`, which itself may be a link of the user's.

    FileNotFoundError when it is not there, EvidenceError when it, or a folder on the way, is anything else.
    """
    *folders, last = name.split("/")
    if {"", ".", ".."} & {*folders, last} or "\0" in name:
        raise EvidenceError(f"{name!r:.200} is no name of an artifact")
    at = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for folder in folders:
            inner = os.open(folder, _FLAGS | os.O_DIRECTORY, dir_fd=at)
            os.close(at)
            at = inner
        found = os.open(last, _FLAGS, dir_fd=at)
    except FileNotFoundError:
        raise
    except OSError as error:  # ELOOP for a link, ENOTDIR for one on the way, ENXIO for a socket
        raise EvidenceError(f"{directory / name} is no plain file that can be read: {error.strerror}") from error
    finally:
        os.close(at)
    if not stat.S_ISREG(os.fstat(found).st_mode):
        os.close(found)
        raise EvidenceError(f"{directory / name} is no plain file")
    return found


def read_bounded(path: Path, max_bytes: int) -> bytes:
    """The whole file. EvidenceError when it is larger, no plain file or can't be read."""
    try:
        descriptor = open_below(path.parent, path.name)
    except OSError as error:
        raise EvidenceError(f"{path} can't be read: {error.strerror}") from error
    with os.fdopen(descriptor, "rb") as stream:
        size = os.fstat(descriptor).st_size
        data = stream.read(max_bytes + 1) if size <= max_bytes else b""
    if size > max_bytes or len(data) > max_bytes:
        raise EvidenceError(f"{path} has more than {max_bytes} bytes: nothing that karotte-gym wrote")
    return data


def difference(directory: Path, name: str, sha256: str, size: int, *, read_it: bool = True) -> str | None:
    """In which way an artifact is not the one of that digest and size, as a sentence; None when it is. Raises as `open_below`.

    The size is looked at first: a file of terabytes costs whoever made it nothing and whoever hashes it hours. One that
    grows meanwhile is read no further than its size. Without `read_it` its content may be any.
    """
    descriptor = open_below(directory, name)
    with os.fdopen(descriptor, "rb") as stream:
        found = os.fstat(descriptor).st_size
        if found != size:
            return f"it has {found} bytes, the record says {size}"
        if not read_it:
            return None
        digest, left = hashlib.sha256(), size
        while left and (block := stream.read(min(BLOCK_BYTES, left))):
            digest.update(block)
            left -= len(block)
    return None if not left and digest.hexdigest() == sha256 else "its content is not what was recorded"
