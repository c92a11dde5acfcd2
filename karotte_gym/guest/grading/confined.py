"""Confines programs: ``confined.py CHANNEL_FD``, started as root by `karotte_confiner`, once for a scoring script.

Each request (JSON and four descriptors: standard input, output, error, and a socket for reports) is served by a fork of
this process, which holds none of the script's memory and has everything imported that confining takes; starting an
interpreter for each program would cost half a second in an emulated machine.

Three processes: a fork makes the namespaces and waits; its child is PID 1 of the new PID namespace, builds the root
directory and stays root; the grandchild becomes the unprivileged user and the program. Reports: "started" with pidfds of
PID 1 and of the fork, "ready" just before the program starts, "exit N" when it has ended; or else why it could not be
run. The program does not inherit that socket, by which it could report an end of its choice. Only the program is in the
run's control group: were it to take the others along when its memory is used up, nobody could say what happened. When
PID 1 ends the kernel kills all that is left.
"""

from __future__ import annotations

import fcntl
import json
import os
import resource
import signal
import socket
import stat
import struct
import sys
from pathlib import Path
from typing import Any, NoReturn

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.dirname(HERE))
import syscalls  # noqa: E402 - the guest's own modules, which are on nobody's path
from seccomp import build_filter  # noqa: E402

del sys.path[0]

UID = GID = 1001  # nobody's in the grader machine, and not the student's 1000, to which files may belong
NEW_NAMESPACES = (
    syscalls.CLONE_NEWNS
    | syscalls.CLONE_NEWCGROUP
    | syscalls.CLONE_NEWUTS
    | syscalls.CLONE_NEWIPC
    | syscalls.CLONE_NEWPID
    | syscalls.CLONE_NEWNET
)
NOTHING = syscalls.MS_NOSUID | syscalls.MS_NODEV
READ_ONLY = syscalls.MS_REMOUNT | syscalls.MS_BIND | syscalls.MS_RDONLY | NOTHING
SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib64", "/etc")
HIDDEN = ("/usr/lib/karotte",)
DEVICES = ("null", "zero", "full", "random", "urandom")
TMP_BYTES = 64 * 1024 * 1024
FILE_BYTES = 256 * 1024 * 1024
SIGNALS = 16  # queued, and timers: a thousand of those keep the kernel busy at the expense of whoever runs, frozen or not
MAX_REQUEST_BYTES = 128 * 1024
# What the program may not ask of the kernel, as for the student's session. Kernel keys are the sharpest of it: they
# belong to a uid and outlive its processes, so that one run could leave a note for the next.
FILTER, QUIET_FILTER = build_filter(), build_filter(quiet=True)


def main() -> None:
    """Serve until the script's end of the channel is closed, which its death does as well."""
    channel = socket.socket(fileno=int(sys.argv[1]))
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody here waits for a fork; the script does, by pidfd
    while True:
        request, fds, _, _ = socket.recv_fds(channel, MAX_REQUEST_BYTES, 4)
        if not request:
            return
        if os.fork() == 0:
            channel.close()
            _serve(json.loads(request), fds)
        for fd in fds:
            os.close(fd)


def _serve(config: dict[str, Any], fds: list[int]) -> NoReturn:
    """Namespaces, then PID 1 in them; this process only waits: its end proves that all of them have ended."""
    report = socket.socket(fileno=fds[3])
    report.set_inheritable(False)  # as received it is, and the flag that says otherwise `recv_fds` of 3.11 does not hand on
    try:
        syscalls.prctl(syscalls.PR_SET_PDEATHSIG, signal.SIGKILL)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        for number in range(3):
            os.dup2(fds[number], number)
            os.close(fds[number])
        me = os.pidfd_open(os.getpid())
        syscalls.unshare(NEW_NAMESPACES)
        init = os.fork()
        if init == 0:
            _init(config, report, me)
        report.close()
        for number in range(3):
            os.close(number)
        os.waitpid(init, 0)
    except BaseException as error:
        report.send(repr(error).encode())
    finally:
        os._exit(0)


def _init(config: dict[str, Any], report: socket.socket, confiner: int) -> NoReturn:
    try:
        syscalls.prctl(syscalls.PR_SET_PDEATHSIG, signal.SIGKILL)
        socket.send_fds(report, [b"started"], [os.pidfd_open(os.getpid()), confiner])
        os.close(confiner)
        _loopback_up()
        group = None if config["group"] is None else os.open(f"{config['group']}/cgroup.procs", os.O_WRONLY)
        _build_root(config["readable"])
        program = os.fork()
        if program == 0:
            _become(config, group, report)
        while True:
            pid, status = os.waitpid(-1, syscalls.WAIT_ALL)
            if os.WIFSTOPPED(status):  # it, or a thread of it, has asked its parent to trace it, and would wait for us for ever
                os.kill(pid, signal.SIGKILL)
            elif pid == program:
                code = os.waitstatus_to_exitcode(status)
                report.send(f"exit {code if code >= 0 else 128 - code}".encode())
                break
    except BaseException as error:
        report.send(repr(error).encode())
    finally:
        os._exit(0)


def _become(config: dict[str, Any], group: int | None, report: socket.socket) -> NoReturn:
    """The unprivileged user, its limits, the program. A program that can't be executed is its own fault: exit 127."""
    try:
        os.setsid()
        if group is not None:
            os.write(group, b"0")
        _drop_privileges(config)
        os.chdir(config["cwd"])
        report.send(b"ready")
    except BaseException as error:
        report.send(repr(error).encode())
        os._exit(1)
    try:
        os.execve(config["argv"][0], config["argv"], config["env"])
    except OSError as error:
        os.write(2, f"{config['argv'][0]}: {error.strerror}\n".encode())
        os._exit(127 if isinstance(error, FileNotFoundError) else 126)


def _drop_privileges(config: dict[str, Any]) -> None:
    limits = {
        resource.RLIMIT_NPROC: config["process_count"],
        resource.RLIMIT_CPU: config["cpu_s"],
        resource.RLIMIT_FSIZE: FILE_BYTES,
        resource.RLIMIT_NOFILE: 256,
        resource.RLIMIT_CORE: 0,
        resource.RLIMIT_SIGPENDING: SIGNALS,
    }
    if config["group"] is None:
        limits[resource.RLIMIT_AS] = config["memory_bytes"]
    syscalls.drop_bounding_set()
    for kind, value in limits.items():
        resource.setrlimit(kind, (value, value))
    os.setgroups([])
    os.setresgid(GID, GID, GID)
    os.setresuid(UID, UID, UID)
    syscalls.prctl(syscalls.PR_SET_NO_NEW_PRIVS, 1)
    syscalls.seccomp_filter(QUIET_FILTER if config["quiet"] else FILTER)


def _loopback_up() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        fcntl.ioctl(probe, 0x8914, struct.pack("16sH14x", b"lo", 1))  # SIOCSIFFLAGS, IFF_UP


def _build_root(readable: list[str]) -> None:
    """A list of what is there, not of what is hidden: a new secret place is then hidden from the start."""
    os.umask(0o022)  # the scoring script's own is closer, and the program must be able to enter
    syscalls.mount("none", "/", None, syscalls.MS_REC | syscalls.MS_PRIVATE)
    sources = {path: os.open(path, os.O_PATH | os.O_CLOEXEC) for path in (*SYSTEM, *readable) if os.path.exists(path)}
    root = "/tmp"  # any directory serves to mount on; the descriptors still lead to what it covers
    syscalls.mount("tmpfs", root, "tmpfs", NOTHING, "mode=755,size=1m")
    os.chdir(root)
    for path, source in sources.items():
        _offer(path, source)
    _make_dev()
    for name in ("tmp", "proc"):
        os.makedirs(name, exist_ok=True)
    syscalls.mount("tmpfs", "tmp", "tmpfs", NOTHING, f"mode=1777,size={TMP_BYTES}")
    syscalls.mount("proc", "proc", "proc", NOTHING | syscalls.MS_NOEXEC, "hidepid=2")
    for path in HIDDEN:
        if os.path.isdir(path[1:]):
            syscalls.mount("tmpfs", path[1:], "tmpfs", syscalls.MS_RDONLY, "mode=0")
    syscalls.pivot_root(".", ".")
    syscalls.umount(".", syscalls.MNT_DETACH)
    os.chdir("/")
    syscalls.mount("none", "/", None, READ_ONLY)


def _offer(path: str, source: int) -> None:
    """The same path inside, read-only; a link of the system's (/bin) stays a link."""
    target = path[1:]
    if path in SYSTEM and os.path.islink(path):
        Path(target).symlink_to(os.readlink(path))
    else:
        os.makedirs(os.path.dirname(target) or ".", exist_ok=True)
        if stat.S_ISDIR(os.fstat(source).st_mode):
            os.mkdir(target)
        else:
            os.close(os.open(target, os.O_WRONLY | os.O_CREAT, 0o644))
        syscalls.mount(f"/proc/self/fd/{source}", target, None, syscalls.MS_BIND)
        syscalls.mount("none", target, None, READ_ONLY)
    os.close(source)


def _make_dev() -> None:
    os.mkdir("dev")
    for name in DEVICES:
        os.close(os.open(f"dev/{name}", os.O_WRONLY | os.O_CREAT, 0o644))
        syscalls.mount(f"/dev/{name}", f"dev/{name}", None, syscalls.MS_BIND)
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        Path(f"dev/{name}").symlink_to(f"/proc/self/fd/{number}")
    Path("dev/fd").symlink_to("/proc/self/fd")


if __name__ == "__main__":
    main()
