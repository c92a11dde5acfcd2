"""Replaces text in a file: `replace_in_file`, which runs as the student. Byte-exact but for the kind of line ends."""

from __future__ import annotations

import os

from .file_diff import describe
from .file_exchange import exchange
from .file_hint import nearest
from .file_open import FileProblem, go_to, open_regular
from .file_read import read_all
from .file_text import pictured

__all__ = ["MAX_FILE_BYTES", "replace_in_file"]

MAX_FILE_BYTES = 16 << 20  # before and after; text that is larger is not edited by hand


def replace_in_file(path: bytes, shell_pid: int | None, old: bytes, new: bytes, every: bool) -> bytes:
    """Replace the first `old`, or every one, and describe the change. FileProblem says why not."""
    if not old:
        raise FileProblem("the text to replace is empty")
    go_to(shell_pid)
    name = path.decode("utf-8", "replace")
    fd = open_regular(path, os.O_RDWR)
    try:
        before = os.fstat(fd)
        data = _read(fd, name)
        old, new = _with_line_ends_of(data, old, new)
        found = data.count(old)
        replaced = found if every else min(found, 1)
        _check(name, data, old, new, replaced)
        exchange(path, fd, before, data.replace(old, new, replaced))
    except OSError as error:
        raise FileProblem(f"{name}: {error.strerror}") from None
    finally:
        os.close(fd)
    return b"Replaced %s in %s\n%s" % (_counted(replaced, found), pictured(path), describe(data, old, new, replaced))


def _counted(replaced: int, found: int) -> bytes:
    if replaced < found:
        return b"the first of %d matches" % found
    return b"%d match%s" % (found, b"" if found == 1 else b"es")


def _read(fd: int, name: str) -> bytes:
    try:
        return read_all(fd, MAX_FILE_BYTES)
    except OverflowError:
        most = f"{MAX_FILE_BYTES >> 20} MiB, which is the most this tool changes"
        raise FileProblem(f"{name}: longer than {most}") from None


def _with_line_ends_of(data: bytes, old: bytes, new: bytes) -> tuple[bytes, bytes]:
    """In a file whose lines end in CR LF, a model's plain line ends stand for those."""
    if b"\r\n" not in data or data.count(b"\n") != data.count(b"\r\n"):
        return old, new
    return _crlf(old), _crlf(new)


def _crlf(text: bytes) -> bytes:
    return text.replace(b"\r\n", b"\n").replace(b"\n", b"\r\n")


def _check(name: str, data: bytes, old: bytes, new: bytes, replaced: int) -> None:
    if replaced == 0:
        raise FileProblem(f"{name}: the text does not occur in it (0 matches){nearest(data, old)}")
    size = len(data) + replaced * (len(new) - len(old))
    if size > MAX_FILE_BYTES:
        raise FileProblem(f"{name}: would grow to {size} bytes; at most {MAX_FILE_BYTES} are possible")
