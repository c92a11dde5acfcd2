"""Gives a file new content: in one step where that is possible, so that a reader sees the old content or the new.

In one step means a temporary file beside it, renamed. Where that would change more than the content (another owner's
file or one of a group that the student is not in, a file of several names or with attributes, a directory that the
student can't write) the file is written in place, after its space was reserved. Runs as the student; nothing of it can
reach what the student could not.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import stat
from collections.abc import Iterator

from .file_open import FileProblem

__all__ = ["create", "exchange"]

NEW_FILE_MODE = 0o644  # what the student's umask leaves of a new file


def exchange(path: bytes, fd: int, before: os.stat_result, data: bytes) -> None:
    """New content for the file open as `fd`, which looked like `before` when its old content counted."""
    now = os.fstat(fd)
    if (now.st_size, now.st_mtime_ns) != (before.st_size, before.st_mtime_ns):
        raise FileProblem("the file was changed by somebody else meanwhile; nothing was replaced")
    if now.st_uid != os.geteuid() or now.st_nlink != 1 or not _replace_whole(path, fd, now, data):
        _overwrite(fd, now, data)


def create(directory: bytes, base: bytes, data: bytes) -> None:
    """A new file; nothing that has its name by then is touched."""
    target = os.path.join(directory, base)
    try:
        with _temporary(target) as (fd, temporary):
            _write_all(fd, data)
            os.fchmod(fd, NEW_FILE_MODE)
            os.link(temporary, target, follow_symlinks=False)  # unlike a rename it fails where there is something
            os.unlink(temporary)
    except FileExistsError:
        raise FileProblem("a file of that name was made by somebody else meanwhile; nothing was written") from None
    except _NotInOneStep:
        raise FileProblem("no file can be made in that directory: Permission denied") from None


def _replace_whole(path: bytes, old: int, now: os.stat_result, data: bytes) -> bool:
    """False when that is not possible, or would change more than the content."""
    target = os.path.realpath(path)
    try:
        with _temporary(target) as (fd, temporary):
            _be_alike(fd, old, now)
            _write_all(fd, data)
            os.fchmod(fd, stat.S_IMODE(now.st_mode))
            found = os.lstat(target)
            if (found.st_dev, found.st_ino) != (now.st_dev, now.st_ino):
                raise FileProblem("the file was exchanged by somebody else meanwhile; nothing was replaced")
            os.rename(temporary, target)
    except _NotInOneStep:
        return False
    return True


class _NotInOneStep(Exception):
    """No file can be made beside the target that is like it in all but the content."""


def _be_alike(fd: int, old: int, now: os.stat_result) -> None:
    """Take the old file's group. What has lists of rights or other attributes is not copied."""
    if _has_attributes(old) or _has_attributes(fd):  # those of a new file are its directory's
        raise _NotInOneStep
    if os.fstat(fd).st_gid != now.st_gid:
        try:
            os.fchown(fd, -1, now.st_gid)
        except PermissionError as error:
            raise _NotInOneStep from error


def _has_attributes(fd: int) -> bool:
    """Of its own: those of the security modules come with each file."""
    try:
        return any(not name.startswith("security.") for name in os.listxattr(fd))
    except OSError:  # a file system without any
        return False


@contextlib.contextmanager
def _temporary(target: bytes) -> Iterator[tuple[int, bytes]]:
    """(descriptor, path) of a new file beside `target`, removed when what is done with it fails."""
    directory, base = os.path.split(target)
    path = os.path.join(directory, b".%s.%s" % (base[:200], secrets.token_hex(6).encode()))
    try:
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except (PermissionError, FileNotFoundError) as error:
        raise _NotInOneStep from error
    try:
        yield fd, path
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(path)
        raise
    finally:
        os.close(fd)


def _overwrite(fd: int, now: os.stat_result, data: bytes) -> None:
    if len(data) > now.st_size:
        os.posix_fallocate(fd, 0, len(data))  # a full disk is noticed before anything is lost
    os.lseek(fd, 0, os.SEEK_SET)
    _write_all(fd, data)
    os.ftruncate(fd, len(data))
    if os.fstat(fd).st_mode != now.st_mode:
        with contextlib.suppress(PermissionError):  # another owner's: who writes it takes its set-id bits away
            os.fchmod(fd, stat.S_IMODE(now.st_mode))


def _write_all(fd: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]
