"""Confines one program: ``confined.py CONFIG REPORT_FD``, started as root by `karotte_grading`.

Three processes: this one makes the namespaces and waits; its child is PID 1 of the new PID namespace, builds the root
directory and stays root; the grandchild becomes the unprivileged user and the program. REPORT_FD gets a line "ready"
just before the program starts and "exit N" when it has ended, or else why it could not be run; the program never has
it. Only the program is in the run's control group: were it to take the others along when its memory is used up, nobody
could say what happened. When PID 1 ends the kernel kills all that is left.
"""

from __future__ import annotations

import ctypes
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

UID = GID = 1001  # nobody's in the grader machine, and not the student's 1000, to which files may belong
NEW_NAMESPACES = 0x00020000 | 0x02000000 | 0x04000000 | 0x08000000 | 0x20000000 | 0x40000000  # mnt cgroup uts ipc pid net
MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC = 1, 2, 4, 8
MS_REMOUNT, MS_BIND, MS_REC, MS_PRIVATE = 32, 4096, 16384, 1 << 18
MNT_DETACH = 2
PR_SET_PDEATHSIG, PR_CAPBSET_DROP, PR_SET_NO_NEW_PRIVS = 1, 24, 38
SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib64", "/etc")
HIDDEN = ("/usr/lib/karotte",)
DEVICES = ("null", "zero", "full", "random", "urandom")
TMP_BYTES = 64 * 1024 * 1024
FILE_BYTES = 256 * 1024 * 1024

libc = ctypes.CDLL(None, use_errno=True)


def main() -> None:
    """Namespaces, then PID 1 in them; this process only waits."""
    config, report = json.loads(sys.argv[1]), int(sys.argv[2])
    os.set_inheritable(report, False)
    try:
        _check(libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0), "prctl")
        _check(libc.unshare(NEW_NAMESPACES), "unshare")
        init = os.fork()
        if init == 0:
            _init(config, report)
    except BaseException as error:
        os.write(report, f"{error!r} ".encode())
        raise
    os.close(report)
    os.waitpid(init, 0)


def _init(config: dict[str, Any], report: int) -> NoReturn:
    try:
        _check(libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0), "prctl")
        _loopback_up()
        group = None if config["group"] is None else os.open(f"{config['group']}/cgroup.procs", os.O_WRONLY)
        _build_root(config["readable"])
        program = os.fork()
        if program == 0:
            _become(config, group, report)
        while True:
            pid, status = os.wait()
            if pid == program:
                code = os.waitstatus_to_exitcode(status)
                os.write(report, f"exit {code if code >= 0 else 128 - code}".encode())
                break
    except BaseException as error:
        os.write(report, f"{error!r} ".encode())
    finally:
        os._exit(0)


def _become(config: dict[str, Any], group: int | None, report: int) -> NoReturn:
    """The unprivileged user, its limits, the program. A program that can't be executed is its own fault: exit 127."""
    try:
        os.setsid()
        if group is not None:
            os.write(group, b"0")
        _drop_privileges(config)
        os.chdir(config["cwd"])
        os.write(report, b"ready\n")
    except BaseException as error:
        os.write(report, f"{error!r} ".encode())
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
    }
    if config["group"] is None:
        limits[resource.RLIMIT_AS] = config["memory_bytes"]
    for number in range(_last_capability() + 1):
        _check(libc.prctl(PR_CAPBSET_DROP, number, 0, 0, 0), "drop a capability")
    for kind, value in limits.items():
        resource.setrlimit(kind, (value, value))
    os.setgroups([])
    os.setresgid(GID, GID, GID)
    os.setresuid(UID, UID, UID)
    _check(libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "no_new_privs")


def _last_capability() -> int:
    with open("/proc/sys/kernel/cap_last_cap", "rb") as stream:  # no codec may have to be imported in here
        return int(stream.read())


def _loopback_up() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        fcntl.ioctl(probe, 0x8914, struct.pack("16sH14x", b"lo", 1))  # SIOCSIFFLAGS, IFF_UP


def _build_root(readable: list[str]) -> None:
    """A list of what is there, not of what is hidden: a new secret place is then hidden from the start."""
    os.umask(0o022)  # the scoring script's own is closer, and the program must be able to enter
    _mount("none", "/", None, MS_REC | MS_PRIVATE)
    sources = {path: os.open(path, os.O_PATH | os.O_CLOEXEC) for path in (*SYSTEM, *readable) if os.path.exists(path)}
    root = "/tmp"  # any directory serves to mount on; the descriptors still lead to what it covers
    _mount("tmpfs", root, "tmpfs", MS_NOSUID | MS_NODEV, "mode=755,size=1m")
    os.chdir(root)
    for path, source in sources.items():
        _offer(path, source)
    _make_dev()
    for name in ("tmp", "proc"):
        os.makedirs(name, exist_ok=True)
    _mount("tmpfs", "tmp", "tmpfs", MS_NOSUID | MS_NODEV, f"mode=1777,size={TMP_BYTES}")
    _mount("proc", "proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, "hidepid=2")
    for path in HIDDEN:
        if os.path.isdir(path[1:]):
            _mount("tmpfs", path[1:], "tmpfs", MS_RDONLY, "mode=0")
    _check(libc.pivot_root(b".", b"."), "pivot_root")
    _check(libc.umount2(b".", MNT_DETACH), "leave the old root")
    os.chdir("/")
    _mount("none", "/", None, MS_REMOUNT | MS_BIND | MS_RDONLY | MS_NOSUID | MS_NODEV)


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
        _mount(f"/proc/self/fd/{source}", target, None, MS_BIND)
        _mount("none", target, None, MS_REMOUNT | MS_BIND | MS_RDONLY | MS_NOSUID | MS_NODEV)
    os.close(source)


def _make_dev() -> None:
    os.mkdir("dev")
    for name in DEVICES:
        os.close(os.open(f"dev/{name}", os.O_WRONLY | os.O_CREAT, 0o644))
        _mount(f"/dev/{name}", f"dev/{name}", None, MS_BIND)
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        Path(f"dev/{name}").symlink_to(f"/proc/self/fd/{number}")
    Path("dev/fd").symlink_to("/proc/self/fd")


def _mount(source: str, target: str, kind: str | None, flags: int, data: str = "") -> None:
    result = libc.mount(source.encode(), target.encode(), kind and kind.encode(), ctypes.c_ulong(flags), data.encode())
    _check(result, f"mount {source} on {target}")


def _check(result: int, what: str) -> None:
    if result != 0:
        code = ctypes.get_errno()
        raise OSError(code, f"{what}: {os.strerror(code)}")


if __name__ == "__main__":
    main()
