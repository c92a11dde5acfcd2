"""The lock on a directory that says "in use": whoever uses it holds it shared, who would remove it needs it alone."""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

__all__ = ["alone_with", "is_held"]


def is_held(path: Path) -> bool:
    """Whether somebody uses the directory now. FileNotFoundError when it is gone."""
    with alone_with(path) as alone:
        return not alone


@contextlib.contextmanager
def alone_with(path: Path) -> Iterator[bool]:
    """True when nobody uses the directory, nor begins to within the block. FileNotFoundError when it is gone."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield _locked(descriptor)
    finally:
        os.close(descriptor)


def _locked(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
