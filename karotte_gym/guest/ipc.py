"""Removes System V segments, semaphores and queues that a user created. POSIX queues are files of their mount.

By creator and not by owner: the creator can give an object away, and it would outlive everything else of the user's.
The objects belong to an IPC namespace, so those of a session are removed by a child that enters it.
"""

from __future__ import annotations

import ctypes
import os

from .left_over import Left

__all__ = ["remove_ipc"]

_CLONE_NEWIPC = 0x08000000
_IPC_RMID = 0
_IDS = {"shm": "shmid", "sem": "semid", "msg": "msqid"}  # /proc/sysvipc/NAME -> its column of identifiers


def remove_ipc(uid: int, left: Left, *, pid: int | None = None) -> None:
    """Remove them here and, with `pid`, in that process's namespace; what can't be removed goes into `left`."""
    libc = ctypes.CDLL(None, use_errno=True)
    _take(_remove_all(uid, libc), left)
    if pid is not None and os.stat(f"/proc/{pid}/ns/ipc").st_ino != os.stat("/proc/self/ns/ipc").st_ino:
        _take(_in_namespace_of(pid, uid, libc), left)


def _take(lines: list[str], left: Left) -> None:
    for line in lines:
        if line == "removed":
            left.removed += 1
        else:
            left.add(line)


def _remove_all(uid: int, libc: ctypes.CDLL) -> list[str]:
    """A line "removed" for each that went, another one for each that did not."""
    lines = []
    for kind, column in _IDS.items():
        try:
            with open(f"/proc/sysvipc/{kind}", encoding="ascii") as stream:
                names, *rows = [line.split() for line in stream]
        except FileNotFoundError:  # a kernel without System V IPC
            continue
        for row in rows:
            fields = dict(zip(names, row, strict=True))
            if int(fields["cuid"]) == uid:
                lines.append(_remove_one(kind, int(fields[column]), libc))
    return lines


def _remove_one(kind: str, number: int, libc: ctypes.CDLL) -> str:
    calls = {
        "shm": lambda: libc.shmctl(number, _IPC_RMID, None),
        "sem": lambda: libc.semctl(number, 0, _IPC_RMID),
        "msg": lambda: libc.msgctl(number, _IPC_RMID, None),
    }
    if calls[kind]() == 0:
        return "removed"
    return f"System V {kind} {number}: {os.strerror(ctypes.get_errno())}"


def _in_namespace_of(pid: int, uid: int, libc: ctypes.CDLL) -> list[str]:
    namespace = os.open(f"/proc/{pid}/ns/ipc", os.O_RDONLY | os.O_CLOEXEC)
    reader, writer = os.pipe2(os.O_CLOEXEC)
    child = os.fork()
    if child == 0:
        _report(namespace, writer, uid, libc)
    os.close(writer)
    os.close(namespace)
    with os.fdopen(reader, "rb") as stream:
        text = stream.read()
    os.waitpid(child, 0)
    lines = text.decode().splitlines()
    if not lines or lines.pop() != "end":
        raise RuntimeError(f"the child that removes IPC objects in the session ended early: {text[-500:]!r}")
    return lines


def _report(namespace: int, writer: int, uid: int, libc: ctypes.CDLL) -> None:
    try:
        if libc.setns(namespace, _CLONE_NEWIPC) != 0:
            raise OSError(ctypes.get_errno(), "setns")
        lines = [*_remove_all(uid, libc), "end"]
        with os.fdopen(writer, "wb") as stream:
            stream.write("".join(f"{line}\n" for line in lines).encode())
    finally:
        os._exit(0)
