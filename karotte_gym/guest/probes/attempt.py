"""Doing the forbidden thing and seeing what the kernel says: `attempt` in a fork of its own, `closed` for the verdict.

A probe that reads a setting proves that the setting was written. So every probe of a power tries to use it, with
arguments that do no harm if it is granted. Whatever is answered other than by a refusal counts against the machine: an
EINVAL or EFAULT says that the kernel went on to look at the arguments of a call it should have turned away.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import select
import signal
from collections.abc import Callable, Iterator

from .tree import Finding

__all__ = ["DIED", "FILTER", "HUNG", "REFUSALS", "attempt", "call", "closed", "function", "libc", "number"]

TIMEOUT_S = 10.0
HUNG = -1  # the attempt did not come back: it was let in and waits
DIED = -2  # a signal ended it
FILTER = "refuse it in guest/seccomp.py"
REFUSALS = (errno.EPERM, errno.EACCES, errno.ENOSYS)

libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long
# Written out here again on purpose: numbers taken from the filter's own table could not show a mistake in it.
_NUMBERS = {
    "pivot_root": (155, 41), "perf_event_open": (298, 241), "finit_module": (313, 273), "kexec_file_load": (320, 294),
    "bpf": (321, 280), "userfaultfd": (323, 282), "kexec_load": (246, 104), "add_key": (248, 217),
    "request_key": (249, 218), "keyctl": (250, 219), "io_uring_setup": (425, 425), "open_tree": (428, 428),
    "fsopen": (430, 430), "fsmount": (432, 432), "mount_setattr": (442, 442), "clone3": (435, 435),
    "memfd_secret": (447, 447), "process_vm_readv": (310, 270), "clone": (56, 220),
    "init_module": (175, 105), "delete_module": (176, 106), "open_by_handle_at": (304, 265),
    "splice": (275, 76), "tee": (276, 77), "vmsplice": (278, 75), "sendfile": (40, 71),
}  # fmt: skip


def number(name: str) -> int:
    """Number of a system call on this processor."""
    return _NUMBERS[name][("x86_64", "aarch64").index(platform.machine())]


def call(name: str, *arguments: object) -> int:
    """A system call by its name: 0 when it worked, else the error number. Integers are passed as longs."""
    converted = [ctypes.c_long(value) if isinstance(value, int) else value for value in arguments]
    ctypes.set_errno(0)
    return ctypes.get_errno() if libc.syscall(ctypes.c_long(number(name)), *converted) < 0 else 0


def function(name: str, *arguments: object) -> int:
    """A function of the C library that sets errno: 0 when it worked, else the error number. Integers are C ints."""
    ctypes.set_errno(0)
    return ctypes.get_errno() if getattr(libc, name)(*arguments) < 0 else 0


def attempt(action: Callable[..., int], *arguments: object) -> int:
    """Run `action` in a child: the error number that it returns or raises, 0 when it worked, `HUNG` or `DIED`."""
    answer, told = os.pipe2(os.O_CLOEXEC)
    pid = os.fork()
    if pid == 0:
        try:
            os.write(told, b"%d" % _error_number(action, arguments))
        finally:
            os._exit(0)
    os.close(told)
    try:
        ready, _, _ = select.select([answer], [], [], TIMEOUT_S)
        text = os.read(answer, 16) if ready else b"%d" % HUNG
    finally:
        os.close(answer)
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    return int(text or DIED)


def _error_number(action: Callable[..., int], arguments: tuple[object, ...]) -> int:
    try:
        return action(*arguments)
    except OSError as error:
        return error.errno or errno.EIO


def closed(
    what: str, action: Callable[..., int], *arguments: object, fix: str = FILTER, also: tuple[int, ...] = ()
) -> Iterator[Finding]:
    """A finding unless the kernel turns `action` away; `also` are further errors that are a refusal of it."""
    result = attempt(action, *arguments)
    if result not in (*REFUSALS, *also):
        yield Finding(f"{what} {_how(result)}", fix)


def _how(result: int) -> str:
    words = {0: "worked", HUNG: "was let in and waits", DIED: "ended the process that tried it"}
    return words.get(result) or f"was not refused: the kernel answered {errno.errorcode.get(result, result)}"
