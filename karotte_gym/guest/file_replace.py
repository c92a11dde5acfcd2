"""Replaces text in a file: `replace_in_file`, which runs as the student. Byte-exact but for the kind of line ends.

The new content takes the old one's place in one step (a temporary file, renamed), so that a reader sees one or the
other. Where that would change more than the content (another owner's file, a file of several names, a directory that
the student can't write) the file is written in place, after its space was reserved.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import stat

from .file_diff import describe
from .file_open import FileProblem, go_to, open_regular

__all__ = ["MAX_FILE_BYTES", "replace_in_file"]

MAX_FILE_BYTES = 16 << 20  # before and after; text that is larger is not edited by hand


def replace_in_file(path: bytes, shell_pid: int | None, old: bytes, new: bytes, every: bool) -> bytes:
    """Replace `old`, which must occur once unless `every`, and describe the change. FileProblem says why not."""
    if not old:
        raise FileProblem("the text to replace is empty")
    go_to(shell_pid)
    name = path.decode("utf-8", "replace")
    fd = open_regular(path, os.O_RDWR)
    try:
        before = os.fstat(fd)
        data = _read(fd, name)
        old, new = _with_line_ends_of(data, old, new)
        count = data.count(old)
        _check(name, data, old, new, count, every)
        changed = data.replace(old, new)
        _write(path, fd, before, changed)
    except OSError as error:
        raise FileProblem(f"{name}: {error.strerror}") from None
    finally:
        os.close(fd)
    return b"Replaced %d occurrence%s in %s\n%s" % (count, b"" if count == 1 else b"s", path, describe(data, old, new))


def _read(fd: int, name: str) -> bytes:
    """All of it; read one byte beyond the limit, since the file may be growing."""
    pieces, left = [], MAX_FILE_BYTES + 1
    while left and (piece := os.read(fd, left)):
        pieces.append(piece)
        left -= len(piece)
    if not left:
        raise FileProblem(f"{name}: longer than {MAX_FILE_BYTES >> 20} MiB, which is the most this tool changes")
    return b"".join(pieces)


def _with_line_ends_of(data: bytes, old: bytes, new: bytes) -> tuple[bytes, bytes]:
    """In a file whose lines end in CR LF, a model's plain line ends stand for those."""
    if b"\r\n" not in data or data.count(b"\n") != data.count(b"\r\n"):
        return old, new
    return _crlf(old), _crlf(new)


def _crlf(text: bytes) -> bytes:
    return text.replace(b"\r\n", b"\n").replace(b"\n", b"\r\n")


def _check(name: str, data: bytes, old: bytes, new: bytes, count: int, every: bool) -> None:
    if count == 0:
        raise FileProblem(f"{name}: the text does not occur in it (0 matches)")
    if count > 1 and not every:
        raise FileProblem(f"{name}: the text occurs {count} times; give more of its surroundings, or set all")
    size = len(data) + count * (len(new) - len(old))
    if size > MAX_FILE_BYTES:
        raise FileProblem(f"{name}: would grow to {size} bytes; at most {MAX_FILE_BYTES} are possible")


def _write(path: bytes, fd: int, before: os.stat_result, data: bytes) -> None:
    now = os.fstat(fd)
    if (now.st_size, now.st_mtime_ns) != (before.st_size, before.st_mtime_ns):
        raise FileProblem("the file was changed by somebody else meanwhile; nothing was replaced")
    if now.st_uid != os.geteuid() or now.st_nlink != 1 or not _replace_whole(path, now, data):
        _overwrite(fd, now.st_size, data)


def _replace_whole(path: bytes, now: os.stat_result, data: bytes) -> bool:
    """False when the directory does not let us."""
    target = os.path.realpath(path)
    directory, base = os.path.split(target)
    temporary = os.path.join(directory, b".%s.%s" % (base[:200], secrets.token_hex(6).encode()))
    try:
        new_fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except (PermissionError, FileNotFoundError):
        return False
    try:
        with open(new_fd, "wb", buffering=0) as file:
            _write_all(file.fileno(), data)
            os.fchmod(file.fileno(), stat.S_IMODE(now.st_mode))
        found = os.lstat(target)
        if (found.st_dev, found.st_ino) != (now.st_dev, now.st_ino):
            raise FileProblem("the file was exchanged by somebody else meanwhile; nothing was replaced")
        os.rename(temporary, target)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise
    return True


def _overwrite(fd: int, size: int, data: bytes) -> None:
    if len(data) > size:
        os.posix_fallocate(fd, 0, len(data))  # a full disk is noticed before anything is lost
    os.lseek(fd, 0, os.SEEK_SET)
    _write_all(fd, data)
    os.ftruncate(fd, len(data))


def _write_all(fd: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]
