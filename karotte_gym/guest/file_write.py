"""Writes a whole text file: `write_file`, which runs as the student.

A new file appears complete or not at all, and an existing one keeps its owner, group, mode and attributes. Directories
are not made: a misspelt one would otherwise take the student's work to a place where nobody looks.
"""

from __future__ import annotations

import os

from .file_exchange import create, exchange
from .file_open import FileProblem, NoSuchFile, go_to, open_regular
from .file_text import pictured

__all__ = ["write_file"]


def write_file(path: bytes, shell_pid: int | None, content: bytes) -> bytes:
    """Make `content` the file's whole content and say which of the two it was. FileProblem says why not."""
    go_to(shell_pid)
    name = path.decode("utf-8", "replace")
    try:
        return _write(path, name, content)
    except OSError as error:
        raise FileProblem(f"{name}: {error.strerror}") from None


def _write(path: bytes, name: str, content: bytes) -> bytes:
    try:
        fd = open_regular(path, os.O_WRONLY)
    except NoSuchFile:
        create(*_place(path, name), content)
        return b"Created %s (%d bytes)\n" % (pictured(path), len(content))
    try:
        before = os.fstat(fd)
        exchange(path, fd, before, content)
    finally:
        os.close(fd)
    return b"Replaced %s (%d bytes, before: %d)\n" % (pictured(path), len(content), before.st_size)


def _place(path: bytes, name: str) -> tuple[bytes, bytes]:
    """Directory and name of a file that is not there."""
    directory, base = os.path.split(path)
    if os.path.islink(path):
        raise FileProblem(f"{name}: is a link to a file that does not exist; write to that path or remove the link")
    if base in (b"", b".", b".."):
        raise FileProblem(f"{name}: does not end in the name of a file")
    if directory and not os.path.isdir(directory):
        parent = directory.decode("utf-8", "replace")
        raise FileProblem(f"{name}: the directory {parent} does not exist and is not made by this tool; make it first")
    return directory, base
