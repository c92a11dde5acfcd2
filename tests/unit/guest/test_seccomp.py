"""The filter in real processes: each refusal, next to what the same call does without it."""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import platform
import select
import shutil
import signal
import socket
import struct
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from karotte_gym.guest import seccomp, syscalls

X86 = platform.machine() == "x86_64"
libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long


def outcome(attempt: Callable[[], int], *, filtered: bool, quiet: bool = False) -> int:
    """0 when the call worked in a fork of its own, else its errno."""
    child = os.fork()
    if child == 0:
        run_and_exit(attempt, filtered=filtered, quiet=quiet)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def run_and_exit(attempt: Callable[[], int], *, filtered: bool, quiet: bool = False) -> None:
    code = 255
    try:
        if filtered:
            syscalls.prctl(syscalls.PR_SET_NO_NEW_PRIVS, 1)
            syscalls.seccomp_filter(seccomp.build_filter(quiet=quiet))
        ctypes.set_errno(0)
        code = 0 if attempt() >= 0 else ctypes.get_errno()
    except OSError as error:
        code = error.errno or 254
    finally:
        os._exit(code)


def call(name: str, *arguments: object) -> Callable[[], int]:
    number = {**seccomp.REFUSED, **seccomp.LASTING, **seccomp.NOT_OFFERED, **seccomp._CALLS}[name][0 if X86 else 1]
    return lambda: libc.syscall(ctypes.c_long(number), *arguments)


def open_socket(*arguments: int) -> Callable[[], int]:
    return lambda: socket.socket(*arguments).fileno()


@pytest.mark.parametrize("name", sorted(seccomp.REFUSED))
def test_a_refused_call_is_refused_before_it_looks_at_its_arguments(name: str) -> None:
    if seccomp.REFUSED[name][0 if X86 else 1] is None:
        pytest.skip(f"{name} is no call of this processor")
    assert outcome(call(name, -1, -1, -1, -1, -1), filtered=True) == errno.EPERM


TIME = struct.pack("4q", 0, 0, 1000, 0)
LASTING = {
    "timer_create": (1, struct.pack("Qii48x", 0, signal.SIGUSR1, 0), ctypes.create_string_buffer(8)),
    "timerfd_create": (1, 0),
    "setitimer": (0, TIME, None),
    "alarm": (1000,),
    "io_setup": (1, ctypes.create_string_buffer(8)),
    "socket": (socket.AF_UNIX, socket.SOCK_STREAM, 0),
    "socketpair": (socket.AF_UNIX, socket.SOCK_STREAM, 0, ctypes.create_string_buffer(8)),
}


@pytest.mark.parametrize("name", sorted(seccomp.LASTING))
def test_what_would_work_on_in_the_kernel_is_refused_to_a_quiet_one_alone(name: str) -> None:
    if seccomp.LASTING[name][0 if X86 else 1] is None:
        pytest.skip(f"{name} is no call of this processor")
    assert outcome(call(name, *LASTING[name]), filtered=True) == 0
    assert outcome(call(name, *LASTING[name]), filtered=True, quiet=True) == errno.EPERM


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


def splice_from_a_silent_socket(writer: int) -> int:
    silent, _other = socket.socketpair()
    return libc.splice(silent.fileno(), None, writer, None, 1, 0)


def send_a_silent_socket(writer: int) -> int:
    silent, _other = socket.socketpair()
    return libc.sendfile(writer, silent.fileno(), None, 1)


def send_a_silent_terminal(writer: int) -> int:
    return libc.sendfile(writer, os.openpty()[1], None, 1)


def reader_is_held(fill: Callable[[int], int], *, filtered: bool) -> bool:
    """Whether asking how much a pipe has still waits when `fill` has had its writing end for a moment."""
    reader, writer = os.pipe()
    filler, asker = Running(lambda: fill(writer), filtered=filtered), None
    try:
        filler.settle(30)
        asker = Running(lambda: fcntl.fcntl(reader, 1031, 65536), filtered=False)  # F_SETPIPE_SZ, as the shell tool does
        return not asker.ended(30 if filtered else 0.5)
    finally:
        filler.kill()
        if asker is not None:
            asker.kill()
        os.close(reader)
        os.close(writer)


class Running:
    """An attempt in a fork of its own that may never return."""

    def __init__(self, attempt: Callable[[], int], *, filtered: bool):
        self.pid = os.fork()
        if self.pid == 0:
            run_and_exit(attempt, filtered=filtered)
        self._pidfd = os.pidfd_open(self.pid)

    def ended(self, timeout_s: float) -> bool:
        return bool(select.select([self._pidfd], [], [], timeout_s)[0])

    def settle(self, timeout_s: float) -> None:
        """Wait until it has ended, or sleeps and goes on sleeping."""
        deadline, asleep = time.monotonic() + timeout_s, 0
        while asleep < 5 and not self.ended(0.02) and time.monotonic() < deadline:
            asleep = asleep + 1 if Path(f"/proc/{self.pid}/stat").read_text().rpartition(") ")[2].startswith("S") else 0

    def kill(self) -> None:
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        os.close(self._pidfd)


@pytest.mark.parametrize("fill", [splice_from_a_silent_socket, send_a_silent_socket, send_a_silent_terminal])
def test_nobody_holds_the_lock_of_a_pipe_that_we_read(fill: Callable[[int], int]) -> None:
    assert reader_is_held(fill, filtered=False), "the kernel no longer waits with the lock: is the refusal still needed?"
    assert not reader_is_held(fill, filtered=True)


@pytest.mark.parametrize(
    ("name", "arguments"),
    [("splice", (-1, 0, -1, 0, 1, 0)), ("tee", (-1, -1, 1, 0)), ("vmsplice", (-1, 0, 0, 0)), ("sendfile", (-1, -1, 0, 1))],
)
def test_a_call_between_pipes_is_answered_as_by_a_file_that_can_not_do_it(name: str, arguments: tuple[int, ...]) -> None:
    assert outcome(call(name, *arguments), filtered=False) == errno.EBADF
    assert outcome(call(name, *arguments), filtered=True) == errno.EINVAL


def test_programs_that_ask_for_them_first_copy_without(tmp_path: Path) -> None:
    (tmp_path / "source").write_bytes(b"x" * 100_000)

    def copy_by_python() -> int:
        shutil.copy2(tmp_path / "source", tmp_path / "copy")
        os.setxattr(tmp_path / "copy", "user.note", b"x")
        return 0

    def serve() -> int:
        ours, theirs = socket.socketpair()
        with (tmp_path / "source").open("rb") as file:
            return 0 if ours.sendfile(file, count=1000) == 1000 == len(theirs.recv(2000)) else -1

    def copy_by_programs() -> int:
        script = "cat source | cat > cat; cp -a source cp; install -m 600 source install; cmp cat cp && cmp cp install"
        return 0 if subprocess.run(["/bin/sh", "-ec", script], cwd=tmp_path, check=False).returncode == 0 else -1

    assert outcome(copy_by_python, filtered=True) == errno.EOPNOTSUPP  # of the attribute, behind the copy
    assert (tmp_path / "copy").stat().st_size == 100_000
    assert outcome(serve, filtered=True) == 0
    assert outcome(copy_by_programs, filtered=True) == 0
    assert (tmp_path / "install").stat().st_mode & 0o777 == 0o600


def test_no_directory_hands_down_rights_to_what_others_make_in_it(tmp_path: Path) -> None:
    entries = ((1, 7), (4, 7), (0x20, 7))  # owner, group, others
    rights = struct.pack("<I", 2) + b"".join(struct.pack("<HHI", *entry, 0xFFFFFFFF) for entry in entries)

    def hand_down() -> int:
        os.setxattr(tmp_path, "system.posix_acl_default", rights)
        return 0

    def mode_of_what_root_makes() -> int:
        (tmp_path / "secret").unlink(missing_ok=True)
        os.close(os.open(tmp_path / "secret", os.O_CREAT | os.O_WRONLY, 0o640))
        return (tmp_path / "secret").stat().st_mode & 0o777

    assert outcome(hand_down, filtered=True) == errno.EOPNOTSUPP
    if outcome(hand_down, filtered=False) == errno.EOPNOTSUPP:
        pytest.skip("the file system of this test has no access lists, so they can't be shown to be an attack")
    os.removexattr(tmp_path, "system.posix_acl_default")
    umask = os.umask(0o077)
    try:
        assert mode_of_what_root_makes() == 0o600
        assert outcome(hand_down, filtered=False) == 0
        assert mode_of_what_root_makes() == 0o640, "with an access list the mask of root's own does not count"
    finally:
        os.umask(umask)


def test_a_process_names_no_tracer_of_its_own() -> None:
    anybody = ctypes.c_ulong(0xFFFFFFFFFFFFFFFF)
    assert outcome(call("prctl", 0x59616D61, anybody, 0, 0, 0), filtered=True) == errno.EINVAL
    assert outcome(call("prctl", 0x59616D61 | 1 << 40, anybody, 0, 0, 0), filtered=True) == errno.EINVAL
    assert outcome(call("prctl", 3, 0, 0, 0, 0), filtered=True) == 0  # PR_GET_DUMPABLE


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
