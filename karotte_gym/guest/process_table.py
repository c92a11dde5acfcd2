"""What /proc tells of many processes: whose they are, whose children, and how many threads run; and how to hold one fast."""

from __future__ import annotations

import errno
import functools
import os
from dataclasses import dataclass

__all__ = ["FEW_THREADS", "Process", "children_of", "living", "pinned", "threads", "threads_of"]

FEW_THREADS = 16  # that run, more or less, of the agent's or the student's; more are a crowd

_GONE = (errno.ESRCH, errno.EINVAL, errno.ENOENT)  # the last two when its number lives on as a group's or a session's
_LINKS_FOR_ONE_THREAD = 3  # of its directory of threads: its own two, and one for each thread
_READ_BYTES = 1 << 16
_STATUS_BYTES = 8192  # a status file is 1 to 2 KiB; the uids come early


@dataclass(frozen=True, slots=True)
class Process:
    """A process by number and start time: the number alone may be somebody else's a moment later."""

    pid: int
    start: int  # clock ticks since boot


def living(uid: int) -> list[Process]:
    """Every process of which the real, effective, saved or file system uid is `uid`, zombies left out."""
    found = []
    directory = os.open("/proc", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for name in os.listdir(directory):
            if name[0] in "123456789" and _belongs(directory, name, b"%d" % uid):
                found.append(Process(int(name), _start(directory, name)))
    finally:
        os.close(directory)
    return found


def children_of(pid: int) -> list[int]:
    """Those of one thread, the first when `pid` is a process's, in the order of their start; none when it has ended.

    Of what the kernel tells about a process this takes no lock that the process can hold, such as the one of an exec that
    it is in the midst of.
    """
    parts = []
    try:
        descriptor = os.open(f"/proc/{pid}/task/{pid}/children", os.O_RDONLY | os.O_CLOEXEC)
        try:
            while part := os.read(descriptor, _READ_BYTES):
                parts.append(part)
        finally:
            os.close(descriptor)
    except (FileNotFoundError, ProcessLookupError):
        return []
    return [int(word) for word in b"".join(parts).split()]


def threads_of(pid: int) -> list[int]:
    """The threads of a process; none when it has ended. One is the rule, and seen from the number of links: no list is made."""
    directory = f"/proc/{pid}/task"
    try:
        return [pid] if os.stat(directory).st_nlink == _LINKS_FOR_ONE_THREAD else [int(name) for name in os.listdir(directory)]
    except (FileNotFoundError, ProcessLookupError):
        return []


def pinned(pid: int) -> int | None:
    """A pidfd of a process whose number was read somewhere; None when it has ended."""
    try:
        return os.pidfd_open(pid)
    except OSError as error:
        if error.errno not in _GONE:
            raise
        return None


def threads() -> tuple[int, int]:
    """Those in the machine that run or want to, and all: one short file, where a look at each of two thousand takes seconds."""
    running, _, all_of_them = os.pread(_load_file(), 100, 0).split()[3].partition(b"/")
    return int(running), int(all_of_them)


@functools.cache
def _load_file() -> int:
    """Kept open: every call asks, and to open it takes ten times as long as to read it."""
    return os.open("/proc/loadavg", os.O_RDONLY | os.O_CLOEXEC)


def _belongs(proc: int, pid: str, uid: bytes) -> bool:
    status = _read(proc, f"{pid}/status")
    if not _has_uid(status, uid):
        return False
    return not _dead(status) or _lives_on_in_a_thread(proc, pid)


def _has_uid(status: bytes, uid: bytes) -> bool:
    at = status.find(b"\nUid:\t")
    return at >= 0 and uid in status[at + 6 : status.index(b"\n", at + 6)].split()


def _dead(status: bytes) -> bool:
    at = status.find(b"\nState:\t")
    return status[at + 8 : at + 9] in (b"Z", b"X")


def _lives_on_in_a_thread(proc: int, pid: str) -> bool:
    """A process whose first thread has ended looks like a zombie while its other threads run on."""
    try:
        threads = os.open(f"{pid}/task", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=proc)
    except (FileNotFoundError, ProcessLookupError):
        return False
    try:
        for thread in os.listdir(threads):
            status = _read(threads, f"{thread}/status")
            if status and not _dead(status):
                return True
    except (FileNotFoundError, ProcessLookupError):
        return False
    finally:
        os.close(threads)
    return False


def _start(proc: int, pid: str) -> int:
    text = _read(proc, f"{pid}/stat").rpartition(b")")[2].split()
    return int(text[19]) if len(text) > 19 else 0  # field 22 of proc(5), counted after the name


def _read(directory: int, name: str) -> bytes:
    """Contents of a small /proc file; empty when the process has gone."""
    try:
        descriptor = os.open(name, os.O_RDONLY | os.O_CLOEXEC, dir_fd=directory)
    except (FileNotFoundError, ProcessLookupError):
        return b""
    try:
        return os.read(descriptor, _STATUS_BYTES)
    except ProcessLookupError:
        return b""
    finally:
        os.close(descriptor)
