"""Opens what lies at a path of the machine without following anything: one component at a time, from "/".

Root opens paths that the student may have arranged. A link would lead out of the tree, a FIFO would block for ever, a
device could do anything when opened, another mount could hold other data. So every component is opened relative to the
descriptor of its directory with O_NOFOLLOW, and the last one first with O_PATH, which does nothing to what it opens;
its kind is then read from the descriptor, and a regular file is reopened through that very descriptor.
"""

from __future__ import annotations

import errno
import os
import stat

__all__ = ["MAX_PATH_BYTES", "Problem", "kind_of", "open_directory", "open_inode", "open_parent", "read_inode", "split"]

MAX_PATH_BYTES = 4096  # PATH_MAX of Linux; longer ones can be made, but nobody can name them
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY
_KINDS = {
    stat.S_IFREG: "regular file",
    stat.S_IFDIR: "directory",
    stat.S_IFLNK: "symbolic link",
    stat.S_IFIFO: "FIFO (named pipe)",
    stat.S_IFSOCK: "socket",
    stat.S_IFCHR: "character device",
    stat.S_IFBLK: "block device",
}


class Problem(Exception):
    """A path can't be used. `reason` is "missing", "parent", "link", "kind" or "busy"; the text names the path."""

    def __init__(self, reason: str, sentence: str):
        super().__init__(sentence)
        self.reason = reason


def split(path: object) -> list[str]:
    """Components of an absolute, normalised path. ValueError when it is anything else."""
    if not isinstance(path, str) or not path.startswith("/") or path == "/":
        raise ValueError(f"not an absolute path: {path!r:.200}")
    parts = path[1:].split("/")
    if any(part in ("", ".", "..") for part in parts) or "\0" in path:
        raise ValueError(f"not a normalised path: {path!r:.200}")
    if len(os.fsencode(path)) >= MAX_PATH_BYTES:
        raise ValueError(f"path of more than {MAX_PATH_BYTES - 1} bytes: {path[:200]!r}...")
    return parts


def kind_of(mode: int) -> str:
    """What a mode stands for, in words."""
    return _KINDS.get(stat.S_IFMT(mode), "special file")


def open_directory(name: str, parent: int | None, path: str) -> int:
    """Descriptor of a directory that is no link. `path` is for the sentence only."""
    try:
        return os.open(name, _DIRECTORY, dir_fd=parent)
    except OSError as error:
        raise _why_not(name, parent, path, error) from error


def open_parent(path: str, *, root: str = "/", make: tuple[int, int] | None = None) -> tuple[int, str]:
    """Descriptor of the directory that holds `path`, and the last component.

    `make` (uid, gid) creates missing directories for that owner. A component that is missing is the reason "parent".
    """
    parts = split(path)
    descriptor = os.open(root, _DIRECTORY)
    try:
        for depth, part in enumerate(parts[:-1]):
            here = "/" + "/".join(parts[: depth + 1])
            if make is not None:
                _make_directory(part, descriptor, make)
            try:
                below = open_directory(part, descriptor, here)
            except Problem as problem:
                if problem.reason == "missing":
                    raise Problem("parent", f"the directory {here} that should hold {path} does not exist") from None
                raise
            os.close(descriptor)
            descriptor = below
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor, parts[-1]


def open_inode(name: str, parent: int, path: str) -> tuple[int, os.stat_result]:
    """O_PATH descriptor of whatever is there, a link too, and its status. Nothing is done to the thing itself."""
    try:
        descriptor = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=parent)
    except OSError as error:
        raise _why_not(name, parent, path, error) from error
    try:
        return descriptor, os.fstat(descriptor)
    except BaseException:
        os.close(descriptor)
        raise


def read_inode(descriptor: int, path: str) -> int:
    """Reopen the regular file behind an O_PATH descriptor for reading; never waits for a lease."""
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode):
        raise Problem("kind", f"{path} is a {kind_of(status.st_mode)} and not a regular file")
    try:
        flags = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY
        return os.open(f"/proc/self/fd/{descriptor}", flags)
    except BlockingIOError as error:
        raise Problem("busy", f"{path} is held by a lease of another process") from error


def _make_directory(name: str, parent: int, owner: tuple[int, int]) -> None:
    try:
        os.mkdir(name, 0o755, dir_fd=parent)
    except FileExistsError:
        return
    os.chown(name, *owner, dir_fd=parent, follow_symlinks=False)


def _why_not(name: str, parent: int | None, path: str, error: OSError) -> Exception:
    """The same failure as a sentence; an error that the path's owner can't cause is handed on as it is."""
    if error.errno == errno.ENOENT:
        return Problem("missing", f"{path} does not exist")
    if error.errno == errno.ENAMETOOLONG:
        return Problem("kind", f"{path} has a component that is too long")
    if error.errno in (errno.ELOOP, errno.ENOTDIR):
        try:
            mode = os.lstat(name, dir_fd=parent).st_mode
        except FileNotFoundError:
            return Problem("missing", f"{path} does not exist")
        reason = "link" if stat.S_ISLNK(mode) else "kind"
        return Problem(reason, f"{path} is a {kind_of(mode)} and not a directory")
    return error
