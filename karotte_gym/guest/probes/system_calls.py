"""System calls that no task needs and break-outs begin with: each is attempted, none may get past the kernel's door."""

from __future__ import annotations

import ctypes
import errno
import fcntl
import mmap
import os
import platform
import socket
import struct
from collections.abc import Iterator

from .attempt import DIED, REFUSALS, call, closed, function, libc, number
from .tree import Finding, Probe, Tree

__all__ = ["LIVE_PROBES"]

_NAMESPACES = {
    "time": 0x80, "mount": 0x20000, "cgroup": 0x2000000, "UTS": 0x4000000, "IPC": 0x8000000, "user": 0x10000000,
    "PID": 0x20000000, "network": 0x40000000,
}  # fmt: skip
_SIGCHLD = 17
_SPARE_PLACE = b"/var/tmp"
_MS_BIND, _MS_REMOUNT, _MNT_DETACH = ctypes.c_ulong(4096), ctypes.c_ulong(4096 | 32), 2
_OPEN_TREE_CLONE, _AT_FDCWD, _SESSION_KEYRING = 0x80001, -100, -4
_TERMINAL_INPUT = {"TIOCSTI": (0x5412, b"\n"), "TIOCLINUX": (0x541C, b"\x03")}
_PERSONALITIES = {"ADDR_LIMIT_3GB": 0x8000000, "READ_IMPLIES_EXEC": 0x400000, "ADDR_COMPAT_LAYOUT": 0x200000}
_FAMILIES = {
    "AF_PACKET": 17, "AF_KEY": 15, "AF_ALG": 38, "AF_VSOCK": 40, "AF_BLUETOOTH": 31, "AF_CAN": 29, "AF_TIPC": 30,
    "AF_RDS": 21, "AF_XDP": 44, "AF_QIPCRTR": 42, "AF_NFC": 39, "AF_PPPOX": 24,
}  # fmt: skip
_NETLINK = {"sock_diag": 4, "xfrm": 6, "audit": 9, "netfilter": 12, "uevent": 15, "generic": 16}
_NO_SUCH_SOCKET = (errno.EPROTONOSUPPORT, errno.ESOCKTNOSUPPORT, errno.EAFNOSUPPORT)
_SET_PTRACER = 0x59616D61
_X32_GETPID = ctypes.c_long(0x40000000 | 39)
_I386_GETPID = b"\xb8\x14\x00\x00\x00\xcd\x80\xc3"  # mov eax, 20; int 0x80; ret


def new_namespaces(_tree: Tree) -> Iterator[Finding]:
    """A namespace of its own makes the student root somewhere and opens half of the kernel to it."""
    for kind, flag in _NAMESPACES.items():
        yield from closed(f"unshare of a {kind} namespace", function, "unshare", flag)


def processes_in_namespaces(_tree: Tree) -> Iterator[Finding]:
    """The same by the birth of a process: `clone` has the same flags, and `clone3` hides them from every filter."""
    for kind, flag in _NAMESPACES.items():
        if kind != "time":  # to clone, that bit is part of the exit signal
            yield from closed(f"clone into a {kind} namespace", _clone, flag)
    arguments = (ctypes.c_uint64 * 11)(_NAMESPACES["user"], 0, 0, 0, _SIGCHLD)
    yield from closed("clone3 into a user namespace", call, "clone3", arguments, ctypes.sizeof(arguments))


def entering_namespaces(_tree: Tree) -> Iterator[Finding]:
    """setns brings the student into the namespaces of whoever lets a descriptor slip."""
    yield from closed("setns", _enter_own_namespace)


def mounts(_tree: Tree) -> Iterator[Finding]:
    """A mount of the student's own can hide, replace or reveal any path."""
    yield from closed("mount of a tmpfs", function, "mount", b"none", _SPARE_PLACE, b"tmpfs", ctypes.c_ulong(0), None)
    yield from closed("bind mount", function, "mount", b"/etc", _SPARE_PLACE, None, _MS_BIND, None)
    yield from closed("remount", function, "mount", b"none", b"/", None, _MS_REMOUNT, None)


def unmounting(_tree: Tree) -> Iterator[Finding]:
    """What lies under a covering mount is what it was meant to hide."""
    for path in (b"/proc/sys", b"/dev/shm", b"/proc"):
        yield from closed(f"umount of {path.decode()}", function, "umount2", path, _MNT_DETACH)


def new_mount_calls(_tree: Tree) -> Iterator[Finding]:
    """The newer calls for mounts are often forgotten where the old ones are refused."""
    yield from closed("fsopen", call, "fsopen", b"tmpfs", 0)
    yield from closed("open_tree", call, "open_tree", _AT_FDCWD, b"/", _OPEN_TREE_CLONE)
    attributes = (ctypes.c_uint64 * 4)(0, 1, 0, 0)
    yield from closed("mount_setattr", call, "mount_setattr", _AT_FDCWD, b"/", 0, attributes, ctypes.sizeof(attributes))


def changing_the_root(_tree: Tree) -> Iterator[Finding]:
    """With a root of its own making the student chooses the libraries of every program it starts."""
    yield from closed("chroot", function, "chroot", b"/")
    yield from closed("pivot_root", call, "pivot_root", b".", b".")


def kernel_programs(_tree: Tree) -> Iterator[Finding]:
    """bpf runs the student's program in the kernel; its verifier has let through what it should not."""
    array_of_one = (ctypes.c_uint32 * 32)(2, 4, 4, 1)
    yield from closed("bpf (making a map)", call, "bpf", 0, array_of_one, ctypes.sizeof(array_of_one))


def performance_counters(_tree: Tree) -> Iterator[Finding]:
    """perf_event_open has a long list of kernel bugs, and its counters tell about other processes."""
    software_clock = (ctypes.c_uint32 * 32)(1, 128, 0)
    yield from closed("perf_event_open", call, "perf_event_open", software_clock, 0, -1, -1, 0)


def user_faults(_tree: Tree) -> Iterator[Finding]:
    """userfaultfd stops the kernel in the midst of a copy, which makes races easy to win."""
    yield from closed("userfaultfd", call, "userfaultfd", 1)


def asynchronous_io(_tree: Tree) -> Iterator[Finding]:
    """io_uring does system calls that no filter sees."""
    yield from closed("io_uring_setup", call, "io_uring_setup", 1, (ctypes.c_uint32 * 30)())


def kernel_modules(_tree: Tree) -> Iterator[Finding]:
    """A module is part of the kernel: whoever loads one has everything."""
    yield from closed("init_module", call, "init_module", b"\0" * 64, 64, b"")
    yield from closed("finit_module", call, "finit_module", 0, b"", 0)
    yield from closed("delete_module", call, "delete_module", b"no-such-module", 0o4000)


def another_kernel(_tree: Tree) -> Iterator[Finding]:
    """kexec replaces the kernel with one of the student's."""
    yield from closed("kexec_load", call, "kexec_load", 0, 0, None, 0)
    yield from closed("kexec_file_load", call, "kexec_file_load", -1, -1, 0, None, 0)


def kernel_keys(_tree: Tree) -> Iterator[Finding]:
    """Keys in the kernel outlive processes and are shared by uid: notes that no file sweep finds."""
    yield from closed("add_key", call, "add_key", b"user", b"note", b"x", 1, _SESSION_KEYRING)
    yield from closed("keyctl", call, "keyctl", 0, _SESSION_KEYRING, 1)
    yield from closed("request_key", call, "request_key", b"user", b"note", None, 0)


def watching_all_files(_tree: Tree) -> Iterator[Finding]:
    """fanotify sees, and can hold up, every file access of a mount, the harness's included."""
    yield from closed("fanotify_init", function, "fanotify_init", 0x200, 0)


def opening_by_handle(_tree: Tree) -> Iterator[Finding]:
    """A file handle opens any file of a disk, whatever directories lie above it."""
    handle = (ctypes.c_uint32 * 4)(8, 1, 2, 0)
    yield from closed("open_by_handle_at", call, "open_by_handle_at", _AT_FDCWD, handle, 0)


def the_machine_itself(_tree: Tree) -> Iterator[Finding]:
    """Rebooting, swapping, accounting, quotas and names belong to root."""
    yield from closed("reboot", function, "reboot", 1)  # 1 is no command
    yield from closed("swapon", function, "swapon", b"/dev/null", 0)
    yield from closed("swapoff", function, "swapoff", b"/dev/null")
    yield from closed("acct", function, "acct", None)
    yield from closed("sethostname", function, "sethostname", b"student", 7)
    yield from closed("setdomainname", function, "setdomainname", b"student", 7)
    yield from closed("quotactl", function, "quotactl", ctypes.c_int(-0x7FFFFF << 8), None, 0, None)  # Q_SYNC


def the_clock(_tree: Tree) -> Iterator[Finding]:
    """A clock that the student can set fakes every timing and time limit inside."""
    now = (ctypes.c_int64 * 2)()
    libc.clock_gettime(0, now)
    yield from closed("clock_settime", function, "clock_settime", 0, now)
    yield from closed("settimeofday", function, "settimeofday", (ctypes.c_int64 * 2)(now[0], 0), None)
    no_frequency_offset = (ctypes.c_int64 * 32)(2)
    yield from closed("adjtimex", function, "adjtimex", no_frequency_offset)


def the_kernels_log(_tree: Tree) -> Iterator[Finding]:
    """The log has addresses, names of devices and what a crash of the agent would print."""
    buffer = ctypes.create_string_buffer(4096)
    yield from closed("reading the kernel's log by syslog", function, "klogctl", 3, buffer, len(buffer))


def input_output_ports(_tree: Tree) -> Iterator[Finding]:
    """With the processor's ports the student speaks to devices without the kernel."""
    if platform.machine() == "x86_64":
        yield from closed("iopl", function, "iopl", 3)
        yield from closed("ioperm", function, "ioperm", ctypes.c_ulong(0x80), ctypes.c_ulong(1), 1)


def personalities(_tree: Tree) -> Iterator[Finding]:
    """A personality switches protections off (addresses, executable memory) for all that is started under it."""
    for name, value in _PERSONALITIES.items():
        yield from closed(f"personality {name}", function, "personality", ctypes.c_ulong(value))


def foreign_system_calls(_tree: Tree) -> Iterator[Finding]:
    """32-bit and x32 calls have other numbers: a filter that forgets them filters nothing."""
    if platform.machine() == "x86_64":
        yield from closed("an x32 system call", function, "syscall", _X32_GETPID)
        yield from closed("an i386 system call", _i386_getpid, also=(DIED,))


def moving_between_pipes(_tree: Tree) -> Iterator[Finding]:
    """A pipe that is filled from a silent socket is locked until the socket speaks, and its reader waits: the agent."""
    for name in ("splice", "sendfile", "tee", "vmsplice"):
        yield from closed(f"{name} into a pipe", _into_pipe, name, also=(errno.EINVAL,))


def rights_handed_down(_tree: Tree) -> Iterator[Finding]:
    """An access list that a directory hands down opens the files that root puts there, whatever their mode."""
    for place in ("/workdir", "/dev/shm"):
        yield from closed(f"an access list on a directory in {place}", _hand_down_rights, place, also=(errno.EOPNOTSUPP,))


def tracing_in_a_circle(_tree: Tree) -> Iterator[Finding]:
    """A process lets any other one trace it; two that trace each other can't be ended."""
    anybody = ctypes.c_ulong(0xFFFFFFFFFFFFFFFF)
    yield from closed("prctl(PR_SET_PTRACER)", function, "prctl", _SET_PTRACER, anybody, also=(errno.EINVAL,))


def typing_into_terminals(_tree: Tree) -> Iterator[Finding]:
    """TIOCSTI types into whatever reads the terminal next; TIOCLINUX does it by the console's clipboard."""
    for name, (request, argument) in _TERMINAL_INPUT.items():
        yield from closed(f"ioctl {name}", _on_terminal, request, argument)


def secret_memory(_tree: Tree) -> Iterator[Finding]:
    """Memory that not even root can look into can be neither measured nor searched."""
    yield from closed("memfd_secret", call, "memfd_secret", 0)


def unusual_sockets(_tree: Tree) -> Iterator[Finding]:
    """Families that reach the host (vsock), see packets, or have a rich history of kernel bugs."""
    for name, family in _FAMILIES.items():
        kinds = (socket.SOCK_STREAM, socket.SOCK_DGRAM, socket.SOCK_RAW, socket.SOCK_SEQPACKET)
        for kind in kinds:
            yield from _no_socket(f"socket({name}, {kind.name})", family, kind, 0)


def netlink_families(_tree: Tree) -> Iterator[Finding]:
    """Packet filters, audit and the like are configured by netlink; only the table of interfaces is needed."""
    for name, protocol in _NETLINK.items():
        yield from _no_socket(f"a netlink socket for {name}", socket.AF_NETLINK, socket.SOCK_RAW, protocol)


LIVE_PROBES: tuple[Probe, ...] = (
    new_namespaces, processes_in_namespaces, entering_namespaces, mounts, unmounting, new_mount_calls,
    changing_the_root, kernel_programs, performance_counters, user_faults, asynchronous_io, kernel_modules,
    another_kernel, kernel_keys, watching_all_files, opening_by_handle, the_machine_itself, the_clock,
    the_kernels_log, input_output_ports, personalities, foreign_system_calls, typing_into_terminals,
    moving_between_pipes, rights_handed_down, tracing_in_a_circle, secret_memory, unusual_sockets, netlink_families,
)  # fmt: skip


def _clone(flag: int) -> int:
    ctypes.set_errno(0)
    zero = ctypes.c_long(0)
    pid = libc.syscall(ctypes.c_long(number("clone")), ctypes.c_long(flag | _SIGCHLD), zero, zero, zero, zero)
    if pid == 0:
        os._exit(0)
    return ctypes.get_errno() if pid < 0 else 0


def _enter_own_namespace() -> int:
    return function("setns", os.open("/proc/self/ns/net", os.O_RDONLY), 0)


def _i386_getpid() -> int:
    """Three instructions; where there are no 32-bit calls at all the child dies of them, which is a refusal."""
    page = mmap.mmap(-1, mmap.PAGESIZE, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    page.write(_I386_GETPID)
    result = ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(page)))()
    return -result if result < 0 else 0


def _on_terminal(request: int, argument: bytes) -> int:
    """On something that is no terminal: a filter refuses the request before anybody looks what it is for."""
    with open("/dev/null", "rb") as anything:
        fcntl.ioctl(anything, request, argument)
    return 0


def _into_pipe(name: str) -> int:
    """With arguments that the kernel takes: its own EINVAL would look like a refusal."""
    (source, into), (_reader, write) = os.pipe(), os.pipe()
    os.write(into, b"x")
    if name == "vmsplice":
        piece = ctypes.create_string_buffer(1)
        vector = (ctypes.c_void_p * 2)(ctypes.addressof(piece), 1)
        return call(name, write, vector, 1, 0)
    if name == "sendfile":
        file = os.memfd_create("x")
        os.write(file, b"x")
        return call(name, write, file, (ctypes.c_int64 * 1)(0), 1)
    if name == "tee":
        return call(name, source, write, 1, 0)
    return call(name, source, None, write, None, 1, 0)


def _hand_down_rights(place: str) -> int:
    entries = ((1, 7), (4, 7), (0x20, 7))  # owner, group, others
    rights = struct.pack("<I", 2) + b"".join(struct.pack("<HHI", *entry, 0xFFFFFFFF) for entry in entries)
    directory = f"{place}/probe-{os.getpid()}"
    os.mkdir(directory)
    try:
        os.setxattr(directory, "system.posix_acl_default", rights)
    finally:
        os.rmdir(directory)
    return 0


def _no_socket(what: str, family: int, kind: int, protocol: int) -> Iterator[Finding]:
    try:
        socket.socket(family, kind, protocol).close()
    except OSError as error:
        if error.errno in (*REFUSALS, *_NO_SUCH_SOCKET):
            return
    yield Finding(f"{what} can be made", "refuse it in guest/seccomp.py")
