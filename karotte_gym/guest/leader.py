"""The launcher's own loop: forks on request, reaps, and reports. As PID 1 of a PID namespace it is a session's leader.

A leader is root, in the student's namespaces, and must be worth nothing to the student: it is invisible (``hidepid``),
not dumpable, ignores what may be ignored, reads nothing that a student process writes, and waits for none of them. It
is the only parent of the student's processes, reaps all that are orphaned to it, and its end is the end of all.
A result is written by the forked child itself into a pipe that only the agent reads; the leader never sees it.
"""

from __future__ import annotations

import contextlib
import errno
import os
import select
import signal
import socket
import struct
import traceback
from collections.abc import Callable
from typing import Any

from . import confine, syscalls
from .birth import become, keep_only
from .spawning import receive, send
from .view import enter_view

__all__ = ["serve", "start_root_launcher"]

HIGHEST_PRIORITY = -20
_STATUS = struct.Struct("=ci")


def start_root_launcher(prepare: Callable[[], None] = lambda: None) -> tuple[socket.socket, int]:
    """Fork the launcher of root's programs; call it before the first thread starts. Returns our end and its pid."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    pid = os.fork()
    if pid:
        theirs.close()
        return ours, pid
    try:
        ours.close()
        syscalls.set_name("karotte-launch")
        syscalls.prctl(syscalls.PR_SET_PDEATHSIG, signal.SIGKILL)
        prepare()
        keep_only(theirs.fileno())
        serve(theirs, Station())
    except BaseException:
        traceback.print_exc()
    os._exit(1)


class Station:
    """How a launcher makes a child of each kind. This one makes root's; `SessionStation` the student's."""

    def fork(self) -> tuple[int, int]:
        """(pid, pidfd); pid 0 in the child."""
        pid = os.fork()
        return (0, -1) if pid == 0 else (pid, os.pidfd_open(pid))

    def confine(self, first: bool) -> None:
        """Runs in the child, before exec. `first`: before all others of its group whenever it wants the processor."""
        confine.become_plain_root(first=first)

    def change(self, request: dict[str, Any], fds: list[int]) -> None:  # noqa: ARG002 - the other kind needs them
        """Something the agent tells this launcher to do in its own process."""
        raise OSError(errno.EINVAL, f"no such thing to do: {request['do']}")


class SessionStation(Station):
    """Makes the student's processes: born in the student's control group, confined before their first instruction."""

    def __init__(self, group_fd: int, procs_fd: int, max_processes: int | None, uid: int):
        self.group_fd = group_fd  # -1 without control groups
        self.procs_fd = procs_fd
        self.max_processes = max_processes
        self.uid = uid

    def fork(self) -> tuple[int, int]:
        if self.group_fd < 0:
            return super().fork()
        try:
            return syscalls.fork_into(self.group_fd)
        except OSError as error:
            if error.errno != errno.EAGAIN:
                raise
        # The group is full. What the harness itself starts (a new shell after a fork bomb, a file tool) may still
        # come in: joining a group is not refused where forking in it is.
        pid, pidfd = super().fork()
        if pid == 0:
            os.write(self.procs_fd, b"0")
        return pid, pidfd

    def confine(self, first: bool) -> None:
        confine.become_student(self.max_processes, self.uid, first=first)

    def change(self, request: dict[str, Any], fds: list[int]) -> None:
        if request["do"] == "max-processes":
            self.max_processes = request["value"]
        elif request["do"] == "hostname":
            socket.sethostname(request["value"])
        elif request["do"] == "shm-size":
            syscalls.mount("tmpfs", "/dev/shm", None, _SHM_REMOUNT, f"size={request['bytes']}")
        elif request["do"] == "group":
            for new, kept in zip(fds, (self.group_fd, self.procs_fd), strict=True):
                os.dup2(new, kept, inheritable=False)
        elif request["do"] == "network":
            syscalls.setns(fds[0], syscalls.CLONE_NEWNET)  # this process's, and so of all that it forks from now on
        else:
            super().change(request, fds)


_SHM_REMOUNT = syscalls.MS_REMOUNT | syscalls.MS_NOSUID | syscalls.MS_NODEV


def serve(channel: socket.socket, station: Station) -> None:
    """Answer requests and reap until the channel ends. Runs in a process of its own, single-threaded."""
    wake, waker = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    signal.set_wakeup_fd(waker, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGPIPE, signal.SIGTSTP):
        signal.signal(number, signal.SIG_IGN)
    poller = select.poll()
    poller.register(channel, select.POLLIN)
    poller.register(wake, select.POLLIN)
    statuses: dict[int, int] = {}
    while True:
        ready = {fd for fd, _ in poller.poll()}
        if wake in ready:
            with contextlib.suppress(BlockingIOError):
                os.read(wake, 65536)
            _reap(statuses)
        if channel.fileno() in ready and not _answer(channel, station, statuses):
            return


def _reap(statuses: dict[int, int]) -> None:
    """Collect everything that has ended; tell the agent about what was started for it."""
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG | syscalls.WAIT_ALL)
        except ChildProcessError:
            return
        if pid == 0:
            return
        if os.WIFSTOPPED(status):  # it, or a thread of it, has asked its parent to trace it, and would wait for us for ever
            os.kill(pid, signal.SIGKILL)
            continue
        pipe = statuses.pop(pid, None)
        if pipe is None:
            continue
        code = os.waitstatus_to_exitcode(status)
        with contextlib.suppress(BrokenPipeError):  # the agent has lost interest
            os.write(pipe, _STATUS.pack(b"X", code if code >= 0 else 128 - code))
        os.close(pipe)


def _answer(channel: socket.socket, station: Station, statuses: dict[int, int]) -> bool:
    message = receive(channel)
    if message is None:
        return False
    request, fds = message
    number = request["number"]
    try:
        answer_fds = _carry_out(request, fds, station, statuses)
        send(channel, {"number": number}, answer_fds)
        for fd in answer_fds:
            os.close(fd)
    except OSError as error:
        send(channel, {"number": number, "error": error.errno or errno.EIO})
    finally:
        for fd in fds:
            os.close(fd)
    return True


_STARTS = ("spawn", "call", "root-call", "leader")


def _carry_out(request: dict[str, Any], fds: list[int], station: Station, statuses: dict[int, int]) -> list[int]:
    """Descriptors for the agent: pidfd, status pipe and, for a call, the result pipe. In the child it never returns."""
    if request["do"] not in _STARTS:
        station.change(request, fds)
        return []
    if request["do"] == "leader":
        return _start_leader(request["plan"], fds, statuses)
    answer, told = os.pipe2(os.O_CLOEXEC)
    result, results = os.pipe2(os.O_CLOEXEC) if "call" in request["do"] else (-1, -1)
    plain = Station() if request["do"] == "root-call" else station
    try:
        pid, pidfd = plain.fork()
    except OSError:
        for fd in (answer, told, result, results):
            if fd >= 0:
                os.close(fd)
        raise
    if pid == 0:
        become(request, fds, plain.confine, told, results)
    if request["first"]:  # from its birth: until it could say so itself it would wait among all the others, turn by turn
        os.setpriority(os.PRIO_PROCESS, pid, HIGHEST_PRIORITY)
    statuses[pid] = told
    if results < 0:
        return [pidfd, answer]
    os.close(results)
    return [pidfd, answer, result]


def _start_leader(plan: dict[str, Any], fds: list[int], statuses: dict[int, int]) -> list[int]:
    """Fork PID 1 of a new PID namespace. Ours stays what it was: only children born in between are in the new one."""
    answer, told = os.pipe2(os.O_CLOEXEC)
    own = os.open("/proc/self/ns/pid", os.O_RDONLY | os.O_CLOEXEC)
    try:
        syscalls.unshare(syscalls.CLONE_NEWPID)
        pid = os.fork()
        if pid == 0:
            _lead(plan, fds)
        syscalls.setns(own, syscalls.CLONE_NEWPID)
    finally:
        os.close(own)
    statuses[pid] = told
    return [os.pidfd_open(pid), answer]


def _lead(plan: dict[str, Any], fds: list[int]) -> None:
    """The leader's whole life."""
    try:
        syscalls.set_name("karotte-leader")
        signal.set_wakeup_fd(-1)
        if plan["groups"]:
            _enter_cgroup_namespace(fds[2], fds[3])
        enter_view(plan)
        channel = socket.socket(fileno=os.dup(fds[0]))
        group_fd, procs_fd = (os.dup(fds[1]), os.dup(fds[2])) if plan["groups"] else (-1, -1)
        keep_only(channel.fileno(), group_fd, procs_fd)
        syscalls.drop_bounding_set()
        syscalls.prctl(syscalls.PR_SET_DUMPABLE, 0)
        if plan["fixed_addresses"]:
            syscalls.fix_addresses()
        if plan["real_time"]:
            syscalls.become_important()
        send(channel, {"ready": True})
        serve(channel, SessionStation(group_fd, procs_fd, plan["max_processes"], plan["uid"]))
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(1)


def _enter_cgroup_namespace(student_procs: int, own_procs: int) -> None:
    """The root of a namespace is the group its maker is in: the student is to see its own group as the root of all."""
    os.write(student_procs, b"0")
    syscalls.unshare(syscalls.CLONE_NEWCGROUP)
    os.write(own_procs, b"0")
