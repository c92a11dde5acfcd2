"""System calls that Python 3.11 has no function for, on x86_64 and aarch64: thin, typed, and raising OSError.

Everything goes through the C library's wrappers where it has one, else through ``syscall`` with the number for this
processor. `fork_into` is the one that is more than a call: a fork whose child is born inside a control group.
"""

from __future__ import annotations

import ctypes
import os
import platform
import signal
import struct

CLONE_NEWTIME = 0x80
CLONE_NEWNS = 0x00020000
CLONE_NEWCGROUP = 0x02000000
CLONE_NEWUTS = 0x04000000
CLONE_NEWIPC = 0x08000000
CLONE_NEWUSER = 0x10000000
CLONE_NEWPID = 0x20000000
CLONE_NEWNET = 0x40000000
_CLONE_PIDFD = 0x1000
_CLONE_INTO_CGROUP = 0x200000000

MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC = 1, 2, 4, 8
MS_REMOUNT, MS_NOATIME, MS_BIND, MS_REC, MS_PRIVATE = 32, 1024, 4096, 16384, 1 << 18
MNT_DETACH = 2

PR_SET_PDEATHSIG, PR_SET_DUMPABLE, PR_CAPBSET_READ, PR_CAPBSET_DROP = 1, 4, 23, 24
PR_SET_NAME, PR_SET_NO_NEW_PRIVS, PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL = 15, 38, 47, 4

CLOSE_RANGE_CLOEXEC = 4
LAST_FD = 0xFFFFFFFF
SCHED_RESET_ON_FORK = 0x40000000
PTRACE_DETACH, PTRACE_GETREGSET, PTRACE_SETREGSET = 17, 0x4204, 0x4205
PTRACE_SEIZE, PTRACE_INTERRUPT = 0x4206, 0x4207
WAIT_ALL = 0x40000000  # __WALL of waitpid: tracees as well that are no children, such as a thread of one
_ADDR_NO_RANDOMIZE = 0x40000
_NT_PRSTATUS = 1  # the general registers
_MCL_CURRENT, _MCL_FUTURE, _MCL_ONFAULT = 1, 2, 4

_NUMBERS = {
    "x86_64": {"pivot_root": 155, "capset": 126, "seccomp": 317, "clone3": 435, "close_range": 436},
    "aarch64": {"pivot_root": 41, "capset": 91, "seccomp": 277, "clone3": 435, "close_range": 436},
}
_numbers = _NUMBERS[platform.machine()]
_libc = ctypes.CDLL(None, use_errno=True)
_libc.syscall.restype = ctypes.c_long
# The same library, called without giving up Python's lock: nothing else may run between a fork and its bookkeeping.
_held = ctypes.PyDLL(None, use_errno=True)
_held.syscall.restype = ctypes.c_long

__all__ = [
    "become_important",
    "clear_capabilities",
    "close_range",
    "come_first",
    "drop_bounding_set",
    "fix_addresses",
    "fork_into",
    "lock_memory",
    "mount",
    "pivot_root",
    "prctl",
    "ptrace",
    "ptrace_registers",
    "quotactl",
    "seccomp_filter",
    "setns",
    "shm_remove",
    "umount",
    "unshare",
]


def _check(result: int, what: str) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")
    return result


def mount(source: str, target: str, kind: str | None, flags: int, data: str = "") -> None:
    """mount(2). An error names the target."""
    fields = (os.fsencode(source), os.fsencode(target), kind.encode() if kind else None)
    _check(_libc.mount(*fields, ctypes.c_ulong(flags), data.encode() or None), f"mount {source} on {target}")


def umount(target: str, flags: int = 0) -> None:
    """umount2(2)."""
    _check(_libc.umount2(os.fsencode(target), flags), f"umount {target}")


def unshare(flags: int) -> None:
    """unshare(2)."""
    _check(_libc.unshare(ctypes.c_int(flags)), f"unshare {flags:#x}")


def setns(fd: int, kind: int) -> None:
    """setns(2)."""
    _check(_libc.setns(fd, kind), "setns")


def pivot_root(new: str, old: str) -> None:
    """pivot_root(2)."""
    _check(_libc.syscall(_numbers["pivot_root"], os.fsencode(new), os.fsencode(old)), "pivot_root")


def prctl(option: int, first: int = 0, second: int = 0) -> int:
    """prctl(2) with the two arguments that matter here; the rest must be zero."""
    arguments = [ctypes.c_ulong(value) for value in (first, second, 0, 0)]
    return _check(_libc.prctl(option, *arguments), f"prctl {option}")


def fix_addresses() -> None:
    """From the next exec on programs are loaded to the same addresses each time, and so are those of all children."""
    _check(_libc.personality(ctypes.c_ulong(_ADDR_NO_RANDOMIZE)), "personality")


def set_name(name: str) -> None:
    """The name that ``ps`` shows for this thread; 15 bytes."""
    _check(_libc.prctl(PR_SET_NAME, ctypes.c_char_p(name.encode()[:15]), 0, 0, 0), "prctl name")


def close_range(first: int, last: int = LAST_FD, flags: int = 0) -> None:
    """close_range(2): close, or mark close-on-exec, every descriptor from `first` to `last`."""
    if first <= last:
        _check(_libc.syscall(_numbers["close_range"], ctypes.c_uint(first), ctypes.c_uint(last), flags), "close_range")


def drop_bounding_set() -> None:
    """Empty the bounding set: no later exec of this process or its children can gain any capability."""
    for capability in range(64):
        if _libc.prctl(PR_CAPBSET_READ, ctypes.c_ulong(capability), 0, 0, 0) == 1:
            prctl(PR_CAPBSET_DROP, capability)


def clear_capabilities() -> None:
    """Empty the ambient, inheritable, permitted and effective sets."""
    prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL)
    header = struct.pack("=Ii", 0x20080522, 0)  # _LINUX_CAPABILITY_VERSION_3, this thread
    _check(_libc.syscall(_numbers["capset"], header, bytes(24)), "capset")


def seccomp_filter(program: bytes) -> None:
    """Install a BPF program (8 bytes an instruction). Needs no_new_privs or CAP_SYS_ADMIN."""
    buffer = ctypes.create_string_buffer(program, len(program))
    description = struct.pack("=H6xQ", len(program) // 8, ctypes.addressof(buffer))
    _check(_libc.syscall(_numbers["seccomp"], 1, 0, description), "seccomp")


def ptrace(request: int, pid: int) -> None:
    """ptrace(2) without arguments. A tracee belongs to the calling thread."""
    _check(_libc.ptrace(ctypes.c_long(request), pid, None, None), f"ptrace {request:#x} of {pid}")


def ptrace_registers(request: int, pid: int, registers: bytearray) -> None:
    """PTRACE_GETREGSET into `registers`, or PTRACE_SETREGSET from them: the general ones of a stopped tracee."""
    buffer = (ctypes.c_char * len(registers)).from_buffer(registers)
    vector = struct.pack("=QQ", ctypes.addressof(buffer), len(registers))
    arguments = (ctypes.c_long(request), pid, ctypes.c_void_p(_NT_PRSTATUS), vector)
    _check(_libc.ptrace(*arguments), f"ptrace {request:#x} of {pid}")


def lock_memory() -> None:
    """Keep this process's pages in memory once they are there: a student that fills the machine can't evict them."""
    _check(_libc.mlockall(_MCL_CURRENT | _MCL_FUTURE | _MCL_ONFAULT), "mlockall")


def become_important() -> None:
    """Real-time round robin for the calling thread, not inherited: busy loops of the student's can't delay it."""
    os.sched_setscheduler(0, os.SCHED_RR | SCHED_RESET_ON_FORK, os.sched_param(1))


def is_important() -> bool:
    """Whether the calling thread has called `become_important`."""
    return os.sched_getscheduler(0) & ~SCHED_RESET_ON_FORK == os.SCHED_RR


def come_first() -> None:
    """The highest ordinary priority for the calling process alone: what it forks has the ordinary one again."""
    os.sched_setscheduler(0, os.SCHED_OTHER | SCHED_RESET_ON_FORK, os.sched_param(0))
    os.setpriority(os.PRIO_PROCESS, 0, -20)


def quotactl(command: int, device: str, uid: int, data: ctypes.Array[ctypes.c_char]) -> None:
    """quotactl(2) for the user quota of `uid` on the file system of `device`."""
    _check(_libc.quotactl(ctypes.c_int(command << 8), os.fsencode(device), uid, data), f"quotactl {device}")


def shm_remove(shmid: int) -> None:
    """Mark a System V segment for removal."""
    _check(_libc.shmctl(shmid, 0, None), f"shmctl {shmid}")


def fork_into(group_fd: int) -> tuple[int, int]:
    """Fork with the child born in the control group `group_fd`; returns (pid, pidfd), (0, -1) in the child.

    Moving a process into a group after its birth costs a grace period of the kernel's (several milliseconds, more when
    emulated) and leaves a moment in which it is not limited. Only for a process with a single thread.
    """
    pidfd = ctypes.c_int(-1)
    flags = _CLONE_PIDFD | _CLONE_INTO_CGROUP
    request = struct.pack("=11Q", flags, ctypes.addressof(pidfd), 0, 0, signal.SIGCHLD, 0, 0, 0, 0, 0, group_fd)
    ctypes.pythonapi.PyOS_BeforeFork()
    pid = _held.syscall(_numbers["clone3"], request, len(request))
    error = ctypes.get_errno()
    if pid == 0:
        ctypes.pythonapi.PyOS_AfterFork_Child()
        return 0, -1
    ctypes.pythonapi.PyOS_AfterFork_Parent()
    if pid < 0:
        raise OSError(error, f"clone3: {os.strerror(error)}")
    return pid, pidfd.value
