"""The warden: a small single-threaded process that starts machines for a harness and never outlives it.

Run as ``python -I -S warden_main.py FD PARENT_PID``, standard library only. A trainer is huge and full of threads: to
fork it for every machine would be slow, and a child that dies with "the thread that forked it" would die at random.
So one warden per harness process forks instead, and when the harness is gone (its pidfd is readable, or the control
socket is at its end) the warden kills every machine, removes their run directories and ends. Should the warden be
killed itself, each machine dies by its parent-death signal.

Control socket (SOCK_SEQPACKET), one JSON object a message. Request::

    {"token": int, "argv": [...], "fds": [number in the machine's process, ...], "uid": int | null, "gid": int | null,
     "rlimits": {"NOFILE": int, ...}, "directory": run directory or null}      + the descriptors, in the order of `fds`

Reply: ``{"token", "pid"}`` with a pidfd, or ``{"token", "error": sentence}``. `uid` -1 means a uid of its own for each
machine, so that one escaped emulator can touch no other. The pidfd is opened before the warden can reap, so it never
names another process.
"""

from __future__ import annotations

import ctypes
import json
import os
import resource
import select
import shutil
import signal
import socket
import sys
from typing import Any, NoReturn

MAX_MESSAGE_BYTES = 128 * 1024
MAX_FDS = 64
PR_SET_PDEATHSIG, PR_SET_NO_NEW_PRIVS = 1, 38  # <linux/prctl.h>
UID_BASE, UID_SPAN = 0x70000000, 4_194_304  # systemd's table of uids calls this range unused; one for each pid
NARROW_UID_BASE, NARROW_UID_SPAN = 64_100, 900  # where a user namespace maps 65,536 uids only
EXIT_PREPARATION = 127

_libc = ctypes.CDLL(None, use_errno=True)


class Warden:
    """The loop: requests from the harness, deaths of machines, the death of the harness."""

    def __init__(self, control: socket.socket, parent_pid: int):
        self.control = control
        self.directories: dict[int, str | None] = {}  # pid of a living machine -> its run directory
        self.parent = os.pidfd_open(parent_pid)
        if os.getppid() != parent_pid:  # it died before we had its pidfd, which may name another process by now
            raise SystemExit(0)
        self.wake, wake_end = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(wake_end, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
        for ignored in (signal.SIGINT, signal.SIGHUP, signal.SIGPIPE):
            signal.signal(ignored, signal.SIG_IGN)

    def run(self) -> None:
        try:
            while self._turn():
                pass
        finally:
            self._end_all()

    def _turn(self) -> bool:
        control = self.control.fileno()
        ready, _, _ = select.select([control, self.parent, self.wake], [], [])
        if self.wake in ready:
            os.read(self.wake, 4096)
            self._reap()
        if self.parent in ready:
            return False
        return self._serve() if control in ready else True

    def _serve(self) -> bool:
        try:
            message, fds, _, _ = socket.recv_fds(self.control, MAX_MESSAGE_BYTES, MAX_FDS)
        except ConnectionError:
            return False
        if not message:
            return False
        try:
            self._spawn(json.loads(message), fds)
        finally:
            for fd in fds:
                os.close(fd)
        return True

    def _spawn(self, request: dict[str, Any], fds: list[int]) -> None:
        reply: dict[str, Any] = {"token": request["token"]}
        try:
            pid, pidfd = _start(request, fds)
        except OSError as error:
            reply["error"] = f"{request['argv'][0]}: {error.strerror}"
            self._answer(reply, [])
            return
        self.directories[pid] = request["directory"]
        try:
            self._answer({**reply, "pid": pid}, [pidfd])
        finally:
            os.close(pidfd)

    def _answer(self, reply: dict[str, Any], fds: list[int]) -> None:
        try:
            socket.send_fds(self.control, [json.dumps(reply).encode()], fds)
        except ConnectionError:
            raise SystemExit(0) from None  # the harness is gone; `run` ends the machines

    def _reap(self) -> None:
        while self.directories:
            pid, _ = os.waitpid(-1, os.WNOHANG)
            if pid == 0:
                return
            _remove(self.directories.pop(pid, None))

    def _end_all(self) -> None:
        for pid in self.directories:
            os.kill(pid, signal.SIGKILL)
        while self.directories:
            pid, _ = os.waitpid(-1, 0)
            _remove(self.directories.pop(pid, None))


def _start(request: dict[str, Any], fds: list[int]) -> tuple[int, int]:
    """Fork and exec; returns when the exec happened. OSError when anything before or in the exec failed."""
    failure, failure_end = os.pipe2(os.O_CLOEXEC)
    pid = os.fork()
    if pid == 0:
        _become_machine(request, fds, failure_end)
    os.close(failure_end)
    pidfd = os.pidfd_open(pid)
    with os.fdopen(failure, "rb") as report:
        code = report.read()
    if code:
        os.close(pidfd)
        os.waitpid(pid, 0)
        raise OSError(int(code), os.strerror(int(code)))
    return pid, pidfd


def _become_machine(request: dict[str, Any], fds: list[int], failure_end: int) -> NoReturn:
    try:
        failure_end = _place_fds(fds, request["fds"], failure_end)
        for name, value in request["rlimits"].items():
            _limit(getattr(resource, f"RLIMIT_{name}"), value)
        _drop_privileges(request["uid"], request["gid"])
        _prctl(PR_SET_NO_NEW_PRIVS, 1)
        _die_with_warden()  # after the change of user, which clears the signal
        for number in (signal.SIGINT, signal.SIGHUP, signal.SIGPIPE, signal.SIGTERM, signal.SIGCHLD):
            signal.signal(number, signal.SIG_DFL)
        os.execve(request["argv"][0], request["argv"], {"PATH": "/usr/bin:/bin", "LC_ALL": "C"})
    except OSError as error:
        os.write(failure_end, str(error.errno).encode())
    finally:
        os._exit(EXIT_PREPARATION)


def _place_fds(fds: list[int], numbers: list[int], failure_end: int) -> int:
    """Give each descriptor its number and close everything else; descriptors are first moved out of the way."""
    top = 1 + max([*fds, *numbers, failure_end, 2])
    moved = [os.dup2(fd, top + index, inheritable=False) for index, fd in enumerate(fds)]
    failure_end = os.dup2(failure_end, top + len(fds), inheritable=False)
    for fd, number in zip(moved, numbers, strict=True):
        os.dup2(fd, number, inheritable=True)
    kept = {0, 1, 2, failure_end, *numbers}
    for name in os.listdir("/proc/self/fd"):
        if int(name) not in kept:
            _close(int(name))
    return failure_end


def _close(fd: int) -> None:
    try:
        os.close(fd)
    except OSError:  # the listing's own descriptor is gone by now
        return


def _limit(kind: int, value: int) -> None:
    _, hard = resource.getrlimit(kind)
    value = value if hard == resource.RLIM_INFINITY else min(value, hard)
    resource.setrlimit(kind, (value, value))


def _drop_privileges(uid: int | None, gid: int | None) -> None:
    if uid is None:
        return
    if uid == -1:
        uid = own_uid(os.getpid())
    gid = uid if gid is None else gid
    os.setgroups([])
    os.setresgid(gid, gid, gid)
    os.setresuid(uid, uid, uid)


def own_uid(pid: int) -> int:
    """A uid that no other living machine has: as many as there are pids, where this user namespace maps them."""
    with open("/proc/self/uid_map") as file:
        ranges = [tuple(map(int, line.split())) for line in file]
    for inside, _, count in ranges:
        if inside <= UID_BASE and inside + count >= UID_BASE + UID_SPAN:
            return UID_BASE + pid % UID_SPAN
    return NARROW_UID_BASE + pid % NARROW_UID_SPAN


def _die_with_warden() -> None:
    warden = os.getppid()
    _prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != warden or warden == 1:
        os._exit(EXIT_PREPARATION)


def _prctl(option: int, argument: int) -> None:
    if _libc.prctl(option, ctypes.c_ulong(argument), 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl")


def _remove(directory: str | None) -> None:
    if directory is not None:
        shutil.rmtree(directory, ignore_errors=True)  # the harness removes it too, whoever is first


def main() -> None:
    control = socket.socket(fileno=int(sys.argv[1]))
    os.set_inheritable(control.fileno(), False)
    Warden(control, int(sys.argv[2])).run()


if __name__ == "__main__":
    main()
