"""What the student's processes see: a file system of its own making, a loopback interface and nothing else.

Built by a session's leader in new mount, IPC, host name and network namespaces, before any student process exists.
The system is one read-only bind mount; what can be written is the scratch disk (`/workdir`, `/tmp`, `/var/tmp`) and a
bounded `/dev/shm`, each without devices and set-uid. The old root is detached at the end, so that neither the agent's
directories nor the raw drives have a name in here.
"""

from __future__ import annotations

import fcntl
import os
import socket
import stat
import struct
from typing import Any

from . import syscalls
from .syscalls import MS_BIND, MS_NODEV, MS_NOEXEC, MS_NOSUID, MS_PRIVATE, MS_RDONLY, MS_REC, MS_REMOUNT

__all__ = ["enter_view", "loopback_up"]

_PLAIN = MS_NOSUID | MS_NODEV
# Files of /proc that tell about the kernel or the harness, or do something to the machine. Masked by a file that
# nobody may open (an empty readable one would count as readable, and /dev/null as writable).
_MASKED_FILES = (
    "cmdline", "iomem", "ioports", "kallsyms", "kcore", "key-users", "keys", "kmsg", "kpagecgroup", "kpagecount",
    "kpageflags", "latency_stats", "mtrr", "pagetypeinfo", "sched_debug", "slabinfo", "sysrq-trigger", "timer_list",
    "vmallocinfo",
)  # fmt: skip
_MASKED_DIRECTORIES = ("acpi", "asound", "bus", "driver", "fs", "irq", "scsi", "tty")
_DEVICES = {"full": (1, 7), "null": (1, 3), "random": (1, 8), "tty": (5, 0), "urandom": (1, 9), "zero": (1, 5)}
_LINKS = {"fd": "/proc/self/fd", "ptmx": "pts/ptmx", "stdin": "fd/0", "stdout": "fd/1", "stderr": "fd/2"}
# The agent's code, root's home and what only a grader has: not merely unreadable but absent.
_HIDDEN = ("usr/lib/karotte", "usr/lib/karotte-boot", "root", "root_data", "grading_data", "grade", "submission", "boot")
SHM_INODES = 8192  # an inode of a tmpfs is about 1 KiB of kernel memory
# SysV objects outlive processes, so their number is small: 128 queues of 16 KiB, 128 sets of 100 semaphores.
_IPC_SETTINGS = {"kernel/msgmni": "128", "kernel/sem": "250 12800 100 128"}


def enter_view(plan: dict[str, Any]) -> None:
    """Leave the machine's file system, network and IPC for the student's. `plan` is made by `session.plan_view`."""
    kinds = syscalls.CLONE_NEWNS | syscalls.CLONE_NEWIPC | syscalls.CLONE_NEWUTS
    syscalls.unshare(kinds if plan["machine_network"] else kinds | syscalls.CLONE_NEWNET)
    syscalls.mount("none", "/", None, MS_REC | MS_PRIVATE)
    loopback_up()
    _bound_ipc(plan["shm_bytes"])
    root: str = plan["root"]
    _bind("/", root, read_only=True)
    _make_proc(root, plan["nothing"], plan["empty"])
    _make_sys(root)
    _make_dev(root, plan["shm_bytes"])
    _make_run(root, plan["binds"])
    for source, target, read_only in plan["binds"]:
        _bind(source, root + target, read_only=read_only)
    for name in _HIDDEN:
        if os.path.isdir(f"{root}/{name}"):
            syscalls.mount(plan["empty"], f"{root}/{name}", None, MS_BIND)
    os.chdir(root)
    syscalls.pivot_root(".", ".")
    syscalls.umount(".", syscalls.MNT_DETACH)
    os.chdir("/")


def loopback_up() -> None:
    """Switch on ``lo``, which a new network namespace has down."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        request = struct.pack("16sH14x", b"lo", 0)
        flags = struct.unpack_from("H", fcntl.ioctl(probe, 0x8913, request), 16)[0]  # SIOCGIFFLAGS
        fcntl.ioctl(probe, 0x8914, struct.pack("16sH14x", b"lo", flags | 1))  # SIOCSIFFLAGS, IFF_UP


def _bound_ipc(shm_bytes: int) -> None:
    settings = {**_IPC_SETTINGS, "kernel/shmall": str(max(1, shm_bytes // 4096))}
    for name, value in settings.items():
        with open(f"/proc/sys/{name}", "w") as file:
            file.write(value)


def _bind(source: str, target: str, *, read_only: bool) -> None:
    syscalls.mount(source, target, None, MS_BIND)
    flags = MS_REMOUNT | MS_BIND | _PLAIN | (MS_RDONLY if read_only else 0)
    syscalls.mount("none", target, None, flags)


def _tmpfs(target: str, options: str) -> None:
    syscalls.mount("tmpfs", target, "tmpfs", _PLAIN | MS_NOEXEC, options)


def _make_proc(root: str, nothing: str, empty: str) -> None:
    proc = f"{root}/proc"
    syscalls.mount("proc", proc, "proc", _PLAIN | MS_NOEXEC, "hidepid=invisible")
    for name in _MASKED_FILES:
        if os.path.exists(f"{proc}/{name}"):
            syscalls.mount(nothing, f"{proc}/{name}", None, MS_BIND)
    for name in _MASKED_DIRECTORIES:
        if os.path.isdir(f"{proc}/{name}"):
            syscalls.mount(empty, f"{proc}/{name}", None, MS_BIND)
    # Most settings are root's by mode; ns_last_pid, which chooses the next pid, is everybody's.
    syscalls.mount(f"{proc}/sys", f"{proc}/sys", None, MS_BIND)
    syscalls.mount("none", f"{proc}/sys", None, MS_REMOUNT | MS_BIND | _PLAIN | MS_NOEXEC | MS_RDONLY)


def _make_run(root: str, binds: list[tuple[str, str, bool]]) -> None:
    """Empty and read-only, but for the places of binds (the shell's pipes)."""
    _tmpfs(f"{root}/run", "size=64k,nr_inodes=16,mode=0755")
    for _, target, _ in binds:
        if target.startswith("/run/"):
            os.makedirs(root + target, mode=0o755)
    syscalls.mount("none", f"{root}/run", None, MS_REMOUNT | MS_BIND | _PLAIN | MS_NOEXEC | MS_RDONLY)


def _make_sys(root: str) -> None:
    """Only the processors: run-time libraries count them there. Everything else of /sys speaks of the machine."""
    _tmpfs(f"{root}/sys", "size=64k,nr_inodes=16,mode=0755")
    cpus = "devices/system/cpu"
    os.makedirs(f"{root}/sys/{cpus}", mode=0o755)
    _bind(f"/sys/{cpus}", f"{root}/sys/{cpus}", read_only=True)
    syscalls.mount("none", f"{root}/sys", None, MS_REMOUNT | MS_BIND | _PLAIN | MS_NOEXEC | MS_RDONLY)


def _make_dev(root: str, shm_bytes: int) -> None:
    dev = f"{root}/dev"
    syscalls.mount("tmpfs", dev, "tmpfs", MS_NOSUID | MS_NOEXEC, "size=64k,nr_inodes=64,mode=0755")
    previous = os.umask(0)
    for name, (major, minor) in _DEVICES.items():
        os.mknod(f"{dev}/{name}", stat.S_IFCHR | 0o666, os.makedev(major, minor))
    os.umask(previous)
    for name, target in _LINKS.items():
        os.symlink(target, f"{dev}/{name}")  # noqa: PTH211
    for name in ("pts", "shm", "mqueue"):
        os.mkdir(f"{dev}/{name}", 0o755)
    options = "newinstance,ptmxmode=0666,mode=0620,gid=5,max=64"
    syscalls.mount("devpts", f"{dev}/pts", "devpts", MS_NOSUID | MS_NOEXEC, options)
    syscalls.mount("mqueue", f"{dev}/mqueue", "mqueue", _PLAIN | MS_NOEXEC)
    syscalls.mount("none", dev, None, MS_REMOUNT | MS_BIND | MS_NOSUID | MS_NOEXEC | MS_RDONLY)
    shm = f"size={shm_bytes},nr_inodes={SHM_INODES},mode=1777"
    syscalls.mount("tmpfs", f"{dev}/shm", "tmpfs", _PLAIN, shm)
