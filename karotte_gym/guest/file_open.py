"""Opens a file for a file tool, in a process that has the student's rights and no others.

What the student may not read the tool can't read, so links need no ban: they lead where the student could go anyway.
What is banned is everything that is no regular file (a pipe that waits, a device without end) and the tool's own
process, whose entries in /proc a student could not see from outside.
"""

from __future__ import annotations

import contextlib
import os
import stat

__all__ = ["FileProblem", "NoSuchFile", "go_to", "open_regular"]

HOME = "/workdir"
_KINDS = {
    stat.S_IFDIR: "a directory",
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


class FileProblem(Exception):
    """Why a file can't be viewed or changed, as a sentence for the student."""


class NoSuchFile(FileProblem):
    """Nothing is there; whoever may make a file can go on."""


def go_to(shell_pid: int | None) -> None:
    """Stand where the shell stands, which may be a directory that has no name any more; else at home."""
    for place in ([f"/proc/{shell_pid}/cwd"] if shell_pid else []) + [HOME, "/"]:
        with contextlib.suppress(OSError):
            os.chdir(place)
            return


def open_regular(path: bytes, flags: int) -> int:
    """A descriptor of the regular file `path`. FileProblem for anything else; never waits for anybody."""
    if b"\0" in path:
        raise FileProblem("a path can't contain a NUL character")
    name = path.decode("utf-8", "replace")
    try:
        fd = os.open(path, flags | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    except BlockingIOError:
        raise FileProblem(f"{name}: a process holds a lease on the file") from None
    except FileNotFoundError as error:
        raise NoSuchFile(f"{name}: {error.strerror}") from None
    except OSError as error:
        raise FileProblem(f"{name}: {error.strerror}") from None
    mode = os.fstat(fd).st_mode
    if not stat.S_ISREG(mode):
        os.close(fd)
        raise FileProblem(f"{name}: is {_KINDS.get(stat.S_IFMT(mode), 'something else')}, not a regular file")
    if os.readlink(f"/proc/self/fd/{fd}").startswith(f"/proc/{os.getpid()}/"):
        os.close(fd)
        raise FileProblem(f"{name}: belongs to the process of the file tool itself")
    return fd
