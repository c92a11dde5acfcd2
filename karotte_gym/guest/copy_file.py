"""Sends one regular file as parts: its data in chunks, its holes as holes, a digest at the end.

A sparse file costs the student nothing; if its zeros were read, sent or hashed here, it would cost us. So the digest is
over the data parts alone; the host, which checks it, hashes the zeros too. A file that changes
while it is read is refused, because what would be graded is then nothing that was ever handed in.
"""

from __future__ import annotations

import errno
import hashlib
import os
from collections.abc import Callable
from typing import Any

from .nofollow import Problem, read_inode
from .wire import MAX_BODY_BYTES

__all__ = ["send_file"]

Part = Callable[[dict[str, Any], bytes], None]


def send_file(inode: int, status: os.stat_result, path: str, part: Part) -> None:
    """`inode` is an O_PATH descriptor of which `status` was read; exactly `status.st_size` bytes are sent or holes."""
    part({"file": {"path": path, "mode": status.st_mode & 0o777, "size": status.st_size}}, b"")
    descriptor = read_inode(inode, path)
    try:
        digest = hashlib.sha256()
        offset = 0
        while offset < status.st_size:
            data, hole = _extent(descriptor, offset, status.st_size)
            if data > offset:
                part({"hole": {"offset": offset, "length": data - offset}}, b"")
            _send_data(descriptor, data, hole, path, part, digest)
            offset = hole
        after = os.fstat(descriptor)
    finally:
        os.close(descriptor)
    if (after.st_size, after.st_mtime_ns, after.st_ctime_ns) != (
        status.st_size,
        status.st_mtime_ns,
        status.st_ctime_ns,
    ):
        raise Problem("busy", f"{path} changed its size or content while it was read")
    part({"end": {"sha256": digest.hexdigest()}}, b"")


def _extent(descriptor: int, offset: int, size: int) -> tuple[int, int]:
    """(begin, end) of the next data at or after `offset`; (size, size) when the rest is a hole."""
    try:
        data = min(os.lseek(descriptor, offset, os.SEEK_DATA), size)
        return data, min(os.lseek(descriptor, data, os.SEEK_HOLE), size) if data < size else size
    except OSError as error:
        if error.errno == errno.ENXIO:
            return size, size
        raise


def _send_data(descriptor: int, begin: int, end: int, path: str, part: Part, digest: Any) -> None:
    while begin < end:
        chunk = os.pread(descriptor, min(MAX_BODY_BYTES, end - begin), begin)
        if not chunk:
            raise Problem("busy", f"{path} shrank while it was read")
        digest.update(chunk)
        part({"data": {"offset": begin}}, chunk)
        begin += len(chunk)
