"""The filter in real processes: each refusal, next to what the same call does without it."""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import socket
import struct
from collections.abc import Callable

import pytest

from karotte_gym.guest import seccomp, syscalls

X86 = platform.machine() == "x86_64"
libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long


def outcome(attempt: Callable[[], int], *, filtered: bool) -> int:
    """0 when the call worked in a fork of its own, else its errno."""
    child = os.fork()
    if child == 0:
        code = 255
        try:
            if filtered:
                syscalls.prctl(syscalls.PR_SET_NO_NEW_PRIVS, 1)
                syscalls.seccomp_filter(seccomp.build_filter())
            ctypes.set_errno(0)
            code = 0 if attempt() >= 0 else ctypes.get_errno()
        except OSError as error:
            code = error.errno or 254
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def call(name: str, *arguments: object) -> Callable[[], int]:
    number = {**seccomp.REFUSED, **seccomp._CALLS}[name][0 if X86 else 1]
    return lambda: libc.syscall(ctypes.c_long(number), *arguments)


def open_socket(*arguments: int) -> Callable[[], int]:
    return lambda: socket.socket(*arguments).fileno()


@pytest.mark.parametrize("name", sorted(seccomp.REFUSED))
def test_a_refused_call_is_refused_before_it_looks_at_its_arguments(name: str) -> None:
    if seccomp.REFUSED[name][0 if X86 else 1] is None:
        pytest.skip(f"{name} is no call of this processor")
    assert outcome(call(name, -1, -1, -1, -1, -1), filtered=True) == errno.EPERM


@pytest.mark.parametrize("flag", [0x20000, 0x2000000, 0x4000000, 0x8000000, 0x10000000, 0x20000000, 0x40000000, 0x80])
def test_no_namespace_is_left_by_unshare(flag: int) -> None:
    assert outcome(call("unshare", flag), filtered=True) == errno.EPERM


def test_unshare_of_what_is_no_namespace_still_works() -> None:
    assert outcome(call("unshare", 0x400), filtered=True) == 0  # CLONE_FILES


@pytest.mark.skipif(os.getuid() != 0, reason="needs root: the call must work without the filter")
@pytest.mark.skipif(not X86, reason="the argument order of clone is this processor's")
def test_clone_makes_children_but_no_namespaces() -> None:
    def clone(flags: int) -> Callable[[], int]:
        def attempt() -> int:
            pid = libc.syscall(56, flags | 17, 0, 0, 0, 0)
            if pid == 0:
                os._exit(0)
            return pid

        return attempt

    assert outcome(clone(0), filtered=True) == 0
    assert outcome(clone(0x4000000), filtered=False) == 0
    assert outcome(clone(0x4000000), filtered=True) == errno.EPERM


def test_clone3_does_not_exist_and_threads_start_nevertheless() -> None:
    import threading

    def start() -> int:
        thread = threading.Thread(target=int)
        thread.start()
        thread.join()
        return 0

    assert outcome(call("clone3", 0, 0), filtered=True) == errno.ENOSYS
    assert outcome(start, filtered=True) == 0


@pytest.mark.parametrize(
    ("arguments", "without", "with_filter"),
    [
        ((socket.AF_UNIX, socket.SOCK_STREAM), 0, 0),
        ((socket.AF_INET, socket.SOCK_STREAM), 0, 0),
        ((socket.AF_INET6, socket.SOCK_DGRAM), 0, 0),
        ((socket.AF_NETLINK, socket.SOCK_RAW, 0), 0, 0),
        ((socket.AF_NETLINK, socket.SOCK_RAW, 4), 0, errno.EAFNOSUPPORT),  # sock_diag
        ((17, socket.SOCK_RAW, 0x300), 0, errno.EAFNOSUPPORT),  # packets
        ((40, socket.SOCK_STREAM), None, errno.EAFNOSUPPORT),  # vsock: the way to a hypervisor
        ((38, socket.SOCK_SEQPACKET), None, errno.EAFNOSUPPORT),  # the kernel's ciphers
    ],
)
def test_sockets(arguments: tuple[int, ...], without: int | None, with_filter: int) -> None:
    if without is not None and (os.getuid() == 0 or arguments[0] != 17):
        assert outcome(open_socket(*arguments), filtered=False) == without
    assert outcome(open_socket(*arguments), filtered=True) == with_filter


@pytest.mark.parametrize("request_number", [0x5412, 0x541C, 0x401C5820, 0x5412 | 1 << 40])
def test_terminal_injection_is_refused_whatever_the_upper_half_says(request_number: int) -> None:
    attempt = call("ioctl", 0, ctypes.c_ulong(request_number), 0)
    assert outcome(attempt, filtered=True) == errno.EPERM
    assert outcome(call("ioctl", 0, 0x5413, 0), filtered=True) != errno.EPERM  # the window's size


def test_personalities() -> None:
    assert outcome(call("personality", ctypes.c_ulong(0xFFFFFFFF)), filtered=True) == 0
    assert outcome(call("personality", 0x40000), filtered=True) == 0  # what gdb asks for
    assert outcome(call("personality", 0x400000), filtered=False) == 0
    assert outcome(call("personality", 0x400000), filtered=True) == errno.EPERM  # readable means executable


@pytest.mark.parametrize("number", [seccomp.LAST_CALL + 1, 469, 0x40000000, 0x40000000 + 39, 0x7FFFFFFF])
def test_calls_that_nobody_has_looked_at_do_not_exist(number: int) -> None:
    assert outcome(lambda: libc.syscall(ctypes.c_long(number), 0, 0, 0), filtered=True) == errno.ENOSYS


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
def test_the_program_never_jumps_out_of_itself(machine: str) -> None:
    program = seccomp.build_filter(machine)
    instructions = [struct.unpack_from("=HBBI", program, at) for at in range(0, len(program), 8)]
    assert len(instructions) < 4096
    for index, (code, yes, no, _) in enumerate(instructions):
        if code & 7 == 5:  # a jump
            assert index + 1 + max(yes, no) < len(instructions)
    assert instructions[-1] == (6, 0, 0, 0x7FFF0000)
