"""RAM of a snapshot: copied once per harness process into sealed memory that no clone's emulator can write.

Before QEMU 8.2 a RAM file is opened for writing even when it is mapped privately. A file that clones could write would
let one escaped emulator poison every later episode; a memfd sealed against writing can't be written by anyone, us
included. Pages that were never used stay holes and cost nothing.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Iterator

__all__ = ["copy_sparsely", "seal", "sealed_bytes", "sealed_copy"]

COPY_BYTES = 1024 * 1024
PAGE_BYTES = 4096
_ZERO_PAGE = bytes(PAGE_BYTES)
_ALL_SEALS = fcntl.F_SEAL_WRITE | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL


def sealed_copy(source_fd: int) -> int:
    """A sealed memfd with the bytes and holes of `source_fd`."""
    return _sealed("karotte-ram", lambda fd: copy_sparsely(source_fd, fd))


def sealed_bytes(data: bytes) -> int:
    """A sealed memfd with `data`."""

    def write(fd: int) -> None:
        with os.fdopen(os.dup(fd), "wb") as file:
            file.write(data)

    return _sealed("karotte-file", write)


def _sealed(name: str, fill: Callable[[int], None]) -> int:
    fd = os.memfd_create(name, os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    try:
        fill(fd)
        seal(fd)
    except BaseException:
        os.close(fd)
        raise
    return fd


def seal(fd: int) -> None:
    """Make a memfd unchangeable for good."""
    fcntl.fcntl(fd, fcntl.F_ADD_SEALS, _ALL_SEALS)


def copy_sparsely(source_fd: int, target_fd: int) -> None:
    """Copy a file's size and its pages that hold anything; zeros become holes."""
    os.ftruncate(target_fd, os.fstat(source_fd).st_size)
    for start, end in _data_ranges(source_fd):
        for offset in range(start, end, COPY_BYTES):
            _write_pages(target_fd, os.pread(source_fd, min(COPY_BYTES, end - offset), offset), offset)


def _data_ranges(fd: int) -> Iterator[tuple[int, int]]:
    offset, size = 0, os.fstat(fd).st_size
    while offset < size:
        try:
            start = os.lseek(fd, offset, os.SEEK_DATA)
        except OSError:  # ENXIO: only a hole is left
            return
        offset = os.lseek(fd, start, os.SEEK_HOLE)
        yield start // PAGE_BYTES * PAGE_BYTES, offset


def _write_pages(fd: int, data: bytes, offset: int) -> None:
    """Write the runs of pages that are not zero."""
    run = 0
    for start in range(0, len(data) + PAGE_BYTES, PAGE_BYTES):
        page = data[start : start + PAGE_BYTES]
        if page and page != _ZERO_PAGE[: len(page)]:
            continue
        if start > run:
            os.pwrite(fd, memoryview(data)[run : min(start, len(data))], offset + run)
        run = start + PAGE_BYTES
