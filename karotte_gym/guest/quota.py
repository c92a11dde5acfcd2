"""Limits of the scratch disk by the kernel: ext4's user quota for the student's uid, in bytes and in files.

The quota goes by the owner, which the student can't change, and is kept exactly by the file system: what root writes is
never counted, and there is nothing to sweep. Root itself has no quota.
"""

from __future__ import annotations

import ctypes
import os
import struct

from . import syscalls
from .places import SCRATCH, SCRATCH_DEVICE

__all__ = ["UNIT_BYTES", "Quota", "default_limits", "get", "supported", "usage"]

_Q_GETQUOTA, _Q_SETQUOTA = 0x800007, 0x800008
_QIF_LIMITS = 1 | 4  # of blocks and of inodes
# struct if_dqblk: hard and soft limit of blocks, bytes used, hard and soft limit of inodes, inodes used, two times
_DQBLK = struct.Struct("=8QI4x")
UNIT_BYTES = 1024
FILES_FOR_ROOT = 512

Quota = tuple[int | None, int | None]  # bytes, files; None is no limit


def put(uid: int, limits: Quota) -> None:
    """Set both limits of `uid`. What it uses already is left alone, even if it is more."""
    total, count = limits
    # Nothing allowed at all can't be said: zero is "no limit".
    blocks = 0 if total is None else max(1, total // UNIT_BYTES)
    files = 0 if count is None else max(1, count)
    data = ctypes.create_string_buffer(_DQBLK.pack(blocks, blocks, 0, files, files, 0, 0, 0, _QIF_LIMITS), _DQBLK.size)
    syscalls.quotactl(_Q_SETQUOTA, SCRATCH_DEVICE, uid, data)


def _read(uid: int) -> tuple[int, ...]:
    data = ctypes.create_string_buffer(_DQBLK.size)
    syscalls.quotactl(_Q_GETQUOTA, SCRATCH_DEVICE, uid, data)
    return _DQBLK.unpack(data.raw)


def get(uid: int) -> Quota:
    """The limits as the kernel has them."""
    fields = _read(uid)
    return (fields[0] * UNIT_BYTES or None, fields[3] or None)


def usage(uid: int) -> tuple[int, int]:
    """Bytes and files that `uid` has on the scratch disk."""
    fields = _read(uid)
    return fields[2], fields[5]


def supported() -> bool:
    """Whether the mounted scratch disk keeps quotas."""
    try:
        _read(0)
    except OSError:
        return False
    return True


def default_limits() -> tuple[int, int]:
    """What the disk has for the student: its blocks less root's reserve, its inodes less a few for root."""
    facts = os.statvfs(SCRATCH)
    reserve = facts.f_bfree - facts.f_bavail
    return (facts.f_blocks - reserve) * facts.f_frsize, max(1, facts.f_files - FILES_FOR_ROOT)
