"""The whole of a file as bytes: `read_file`, which runs as the student and reads no more than it is told to."""

from __future__ import annotations

import os

from .file_open import FileProblem, go_to, open_regular

__all__ = ["read_all", "read_file"]


def read_file(path: bytes, shell_pid: int | None, max_bytes: int) -> bytes:
    """All of a regular file of `max_bytes` at most. FileProblem says why not."""
    go_to(shell_pid)
    name = path.decode("utf-8", "replace")
    fd = open_regular(path, os.O_RDONLY)
    try:
        return read_all(fd, max_bytes)
    except OverflowError:
        raise FileProblem(f"{name}: longer than {max_bytes} bytes, which is the most that can be read") from None
    except OSError as error:
        raise FileProblem(f"{name}: {error.strerror}") from None
    finally:
        os.close(fd)


def read_all(fd: int, max_bytes: int) -> bytes:
    """All of it or OverflowError; reads one byte beyond the limit, since the file may be growing."""
    pieces, left = [], max_bytes + 1
    while left and (piece := os.read(fd, left)):
        pieces.append(piece)
        left -= len(piece)
    if not left:
        raise OverflowError(f"more than {max_bytes} bytes")
    return b"".join(pieces)
