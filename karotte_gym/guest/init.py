"""PID 1 of a machine: makes the kernel strict, starts the agent, reaps for ever, and ends the machine with the agent.

It stays as small as a Python process can: everything that talks or decides is in the agent, its child. When the agent
ends, for whatever reason, the machine ends at once, so that the host sees a machine that is gone and not one that
runs on without anybody in charge.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import traceback

from . import hardening, syscalls
from .syscalls import MS_NODEV, MS_NOEXEC, MS_NOSUID

__all__ = ["main"]

_RB_AUTOBOOT = 0x01234567  # with QEMU's -no-reboot a restart is the end, and needs no ACPI


def main() -> None:
    """Never returns."""
    if os.getpid() != 1:
        raise SystemExit("this is a machine's first program; it is started by the machine's boot")
    try:
        _clean_self()
        _mount_all()
        hardening.apply()
        agent = _start_agent()
        while os.wait()[0] != agent:
            pass
        print("karotte: the agent has ended, and so does the machine", file=sys.stderr, flush=True)
    except BaseException:
        traceback.print_exc()
    finally:
        ctypes.CDLL(None).reboot(_RB_AUTOBOOT)


def _clean_self() -> None:
    os.environ.clear()
    os.environ.update({"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root", "LANG": "C.UTF-8"})
    os.umask(0o022)
    os.chdir("/")
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)


def _mount_all() -> None:
    """What early boot has not mounted. /proc, /sys and /dev came with us."""
    plain = MS_NOSUID | MS_NODEV
    syscalls.mount("tmpfs", "/run", "tmpfs", plain, "size=16m,nr_inodes=4096,mode=0755")
    for name in ("pts", "shm", "mqueue"):
        os.makedirs(f"/dev/{name}", exist_ok=True)
    syscalls.mount("devpts", "/dev/pts", "devpts", MS_NOSUID | MS_NOEXEC, "mode=0620,gid=5")
    syscalls.mount("tmpfs", "/dev/shm", "tmpfs", plain, "size=32m,nr_inodes=1024,mode=1777")
    syscalls.mount("mqueue", "/dev/mqueue", "mqueue", plain | MS_NOEXEC)


def _start_agent() -> int:
    pid = os.fork()
    if pid:
        return pid
    try:
        from . import agent  # only here: PID 1 does without its memory

        agent.main()
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(1)
