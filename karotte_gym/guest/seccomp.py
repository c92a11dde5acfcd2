"""The filter on the student's system calls: what no task needs and every kernel exploit begins with.

The kernel would refuse most of these to a process without capabilities anyway; the filter makes their code unreachable,
so that a bug in it is no way out. It is a list of refusals, not of permissions: a task's programs keep working.
A task opts out by starting its own programs as root in a hook; the student's session always has the filter.
"""

from __future__ import annotations

import errno
import platform
import struct

__all__ = ["LASTING", "LAST_CALL", "NAMESPACE_FLAGS", "NOT_OFFERED", "REFUSED", "build_filter"]

# name: (x86_64, aarch64); None where the processor has no such call.
REFUSED: dict[str, tuple[int | None, int | None]] = {
    # mounts and roots
    "mount": (165, 40), "umount2": (166, 39), "pivot_root": (155, 41), "chroot": (161, 51), "open_tree": (428, 428),
    "move_mount": (429, 429), "fsopen": (430, 430), "fsconfig": (431, 431), "fsmount": (432, 432),
    "fspick": (433, 433), "mount_setattr": (442, 442), "setns": (308, 268),
    # large and often broken kernel interfaces
    "bpf": (321, 280), "perf_event_open": (298, 241), "userfaultfd": (323, 282), "io_uring_setup": (425, 425),
    "io_uring_enter": (426, 426), "io_uring_register": (427, 427), "memfd_secret": (447, 447),
    "fanotify_init": (300, 262), "fanotify_mark": (301, 263), "open_by_handle_at": (304, 265),
    # kernel keys: they outlive processes and are shared by uid
    "add_key": (248, 217), "request_key": (249, 218), "keyctl": (250, 219),
    # the machine as a whole
    "kexec_load": (246, 104), "kexec_file_load": (320, 294), "create_module": (174, None), "init_module": (175, 105),
    "delete_module": (176, 106), "finit_module": (313, 273), "get_kernel_syms": (177, None),
    "query_module": (178, None), "reboot": (169, 142), "swapon": (167, 224), "swapoff": (168, 225),
    "acct": (163, 89), "syslog": (103, 116), "quotactl": (179, 60), "quotactl_fd": (443, 443),
    "sethostname": (170, 161), "setdomainname": (171, 162), "vhangup": (153, 58), "lookup_dcookie": (212, 18),
    "nfsservctl": (180, 42), "iopl": (172, None), "ioperm": (173, None), "uselib": (134, None),
    "_sysctl": (156, None), "ustat": (136, None),
    # the clock
    "settimeofday": (164, 170), "clock_settime": (227, 112), "adjtimex": (159, 171), "clock_adjtime": (305, 266),
}  # fmt: skip
# name: (x86_64, aarch64, error). Harmless for the kernel and not for us: answered as by a file that can't do it, whereupon
# programs copy with `read` and `write`, and keep a file without attributes.
NOT_OFFERED: dict[str, tuple[int, int, int]] = {
    # They wait for a silent socket or terminal with the lock of the pipe that they fill (`sendfile` since Linux 5.12), and
    # whoever reads that pipe, or merely asks about it, waits with them and can't be interrupted: a thread of the agent's.
    "splice": (275, 76, errno.EINVAL), "tee": (276, 77, errno.EINVAL), "vmsplice": (278, 75, errno.EINVAL),
    "sendfile": (40, 71, errno.EINVAL),
    # An access list that a directory hands down opens what root puts there later, whatever its mode says.
    "setxattr": (188, 5, errno.EOPNOTSUPP), "lsetxattr": (189, 6, errno.EOPNOTSUPP),
    "fsetxattr": (190, 7, errno.EOPNOTSUPP),
}  # fmt: skip
# What goes on in the kernel, at the expense of whoever runs, when those who set it off do not.
LASTING: dict[str, tuple[int | None, int | None]] = {
    "timer_create": (222, 107), "timerfd_create": (283, 85), "setitimer": (38, 103), "alarm": (37, None),
    "io_setup": (206, 0), "socket": (41, 198), "socketpair": (53, 199),
}  # fmt: skip
LAST_CALL = 462  # mseal, Linux 6.10; anything newer was never looked at and does not exist for the student
NAMESPACE_FLAGS = 0x7E020000  # CLONE_NEW* but for NEWTIME, which `clone` reads as part of the exit signal

_CALLS = {"clone": (56, 220), "clone3": (435, 435), "unshare": (272, 97), "ioctl": (16, 29), "socket": (41, 198),
          "personality": (135, 92), "prctl": (157, 167)}  # fmt: skip
_AUDIT_ARCH = (0xC000003E, 0xC00000B7)
_X32_BIT = 0x40000000
_ALLOW = 0x7FFF0000
_TIOCSTI, _TIOCLINUX, _FSSETXATTR = 0x5412, 0x541C, 0x401C5820  # type into a terminal; another project's quota
_PR_SET_PTRACER = 0x59616D61  # two that trace each other hold up each other's end for ever
_AF_UNIX, _AF_INET, _AF_INET6, _AF_NETLINK = 1, 2, 10, 16
_PERSONALITIES = (0, 0x8, 0x20000, 0x20008, 0x40000, 0xFFFFFFFF)  # 32-bit uname, old uname, no ASLR (gdb), ask
_ARCH_AT, _NR_AT, _FIRST_ARGUMENT_AT = 4, 0, 16

_LOAD, _JEQ, _JGE, _JGT, _JSET, _RETURN = 0x20, 0x15, 0x35, 0x25, 0x45, 0x06
Instruction = tuple[int, int, int, int]  # code, jump if true, jump if false, value


def _fail(number: int) -> Instruction:
    return (_RETURN, 0, 0, 0x00050000 | number)


def _argument(index: int) -> Instruction:
    """Load the low half of an argument: the kernel looks at no more of the ones that are tested here."""
    return (_LOAD, 0, 0, _FIRST_ARGUMENT_AT + 8 * index)


_PASS: Instruction = (_RETURN, 0, 0, _ALLOW)


def _only(index: int, values: tuple[int, ...], error: int) -> list[Instruction]:
    tests = [(_JEQ, len(values) - i, 0, value) for i, value in enumerate(values)]
    return [_argument(index), *tests, _fail(error), _PASS]


def _none_of(index: int, values: tuple[int, ...], error: int) -> list[Instruction]:
    tests = [(_JEQ, len(values) - i, 0, value) for i, value in enumerate(values)]
    return [_argument(index), *tests, _PASS, _fail(error)]


def _no_bits(index: int, mask: int, error: int) -> list[Instruction]:
    return [_argument(index), (_JSET, 0, 1, mask), _fail(error), _PASS]


def _sockets() -> list[Instruction]:
    """Unix and internet sockets, and netlink for routes (the C library asks it for interfaces); nothing else."""
    plain = [(_JEQ, 5, 0, _AF_UNIX), (_JEQ, 4, 0, _AF_INET), (_JEQ, 3, 0, _AF_INET6)]
    netlink = [(_JEQ, 0, 3, _AF_NETLINK), _argument(2), (_JEQ, 0, 1, 0), _PASS, _fail(errno.EAFNOSUPPORT)]
    return [_argument(0), *plain, *netlink]


def _rules(column: int) -> list[tuple[int, list[Instruction]]]:
    bodies = {
        "clone": _no_bits(0, NAMESPACE_FLAGS, errno.EPERM),
        "clone3": [_fail(errno.ENOSYS)],  # its flags are in memory, out of a filter's sight; libc falls back to clone
        "unshare": _no_bits(0, NAMESPACE_FLAGS | 0x80, errno.EPERM),
        "ioctl": _none_of(1, (_TIOCSTI, _TIOCLINUX, _FSSETXATTR), errno.EPERM),
        "socket": _sockets(),
        "personality": _only(0, _PERSONALITIES, errno.EPERM),
        "prctl": _none_of(0, (_PR_SET_PTRACER,), errno.EINVAL),  # as of a kernel without Yama
    }
    return [(_CALLS[name][column], body) for name, body in bodies.items()]


def build_filter(machine: str = platform.machine(), *, quiet: bool = False) -> bytes:
    """The BPF program for `machine` ("x86_64" or "aarch64"), to be given to `syscalls.seccomp_filter`.

    `quiet` refuses what is `LASTING` as well.
    """
    column = ("x86_64", "aarch64").index(machine)
    program: list[Instruction] = [
        (_LOAD, 0, 0, _ARCH_AT),
        (_JEQ, 1, 0, _AUDIT_ARCH[column]),  # 32-bit calls have other numbers, so none are let through
        _fail(errno.ENOSYS),
        (_LOAD, 0, 0, _NR_AT),
        (_JGT, 0, 1, LAST_CALL),  # also everything with the bit of the x32 calls
        _fail(errno.ENOSYS),
    ]
    assert LAST_CALL < _X32_BIT
    for numbers in (REFUSED | LASTING if quiet else REFUSED).values():
        number = numbers[column]
        if number is not None:
            program += [(_JEQ, 0, 1, number), _fail(errno.EPERM)]
    for *both, error in NOT_OFFERED.values():
        program += [(_JEQ, 0, 1, both[column]), _fail(error)]
    for number, body in _rules(column):
        program += [(_JEQ, 0, len(body), number), *body]
    program.append(_PASS)
    return b"".join(struct.pack("=HBBI", *instruction) for instruction in program)
