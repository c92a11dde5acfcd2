"""The student's session: namespaces, control group, leader, and the one way to start something as the student.

A session begins with a *leader* (`leader.py`), PID 1 of a new PID namespace, and ends with it: when the leader goes the
kernel ends everything in there. The agent never forks for the student; it asks the leader. What is started gets only
the descriptors it is given, `clean_env`, and the student's rights (`confine.py`).
"""

from __future__ import annotations

import contextlib
import functools
import os
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from . import groups, shell
from .calls import Call, Machine, Refused
from .confine import STUDENT_GID, STUDENT_UID, clean_env, merged
from .places import EMPTY, NOTHING, VIEW_ROOT, student_binds
from .processes import kill_everything
from .spawning import CallFailed, Launcher, LauncherGone, Process, receive
from .view import loopback_up
from .wake import see_ends

__all__ = ["METHODS", "CallFailed", "LauncherGone", "Process", "Session", "end_session", "launch", "start_session"]

FEW_IN_A_ROOM = 8
LEADER_START_TIMEOUT_S = 20.0
LEADER_END_S = 1.0  # at least
LEADER_PAUSE_S = 0.01


class Session:
    """A running session. Any thread may use it."""

    uid = STUDENT_UID
    gid = STUDENT_GID

    def __init__(self, launcher: Launcher, leader: Process, *, room: str):
        self._launcher = launcher
        self._leader = leader
        self._room = room  # "" without control groups
        self.leader_pid = leader.pid  # as the agent sees it

    def spawn(
        self,
        argv: Sequence[str],
        *,
        env: Mapping[str, str] | None = None,
        cwd: str = "/workdir",
        stdin: int,
        stdout: int,
        stderr: int,
        pass_fds: Sequence[int] = (),
        extra_env: Mapping[str, str] | None = None,
        first: bool = False,
    ) -> Process:
        """Start a program as the student, in a session and process group of its own, within its limits.

        `first`: it gets the processor before all else that the student runs, but not so what it starts in turn.
        `env` replaces the clean environment, `extra_env` adds to it. Returns at once: a program that can't be executed
        ends with 126 or 127 and `Process.failure`. OSError when no process can be made, LauncherGone after the end.
        """
        environment = merged(clean_env() if env is None else env, extra_env)
        return self._launcher.spawn(
            argv, env=environment, cwd=cwd, stdin=stdin, stdout=stdout, stderr=stderr, pass_fds=pass_fds, first=first
        )

    def call_as_student(
        self,
        function: Callable[..., bytes],
        *args: Any,
        timeout_s: float = 10.0,
        max_bytes: int = 1 << 20,
        first: bool = False,
    ) -> bytes:
        """Run a function of a guest module in a fork with the student's rights and return the bytes that it returns.

        The function must be found by its module and qualified name; its module must be loaded when the agent starts.
        TimeoutError, OverflowError (too long an answer), CallFailed (it raised, or was killed), OSError (no fork).
        The answer comes from a process that the student can kill but neither see into nor write to. `first` as for `spawn`.
        """
        return self._launcher.call(function, *args, timeout_s=timeout_s, max_bytes=max_bytes, first=first)

    def call_as_root(
        self, function: Callable[..., bytes], *args: Any, timeout_s: float = 10.0, max_bytes: int = 1 << 20
    ) -> bytes:
        """The same as root, in the student's namespaces and outside its control group: to see its IPC objects."""
        return self._launcher.call(function, *args, timeout_s=timeout_s, max_bytes=max_bytes, as_root=True)

    @staticmethod
    def clean_env() -> dict[str, str]:
        """What a student's program finds in its environment."""
        return clean_env()

    def tell(self, what: str, fds: Sequence[int] = (), **values: Any) -> None:
        """Change something in the leader: "max-processes", "shm-size", "hostname", "network" and "group" (of descriptors)."""
        self._launcher.tell(what, fds, **values)

    def pids(self) -> list[int]:
        """The student's processes as the agent sees their numbers; zombies may be among them."""
        return groups.students_pids() if self._room else pids_in_namespace_of(self.leader_pid)

    def change_room(self, taking: Sequence[int]) -> None:
        """Let what is started from now on, and the processes `taking`, have the processor before all that the student runs now.

        Nothing happens without control groups, and where the room holds few besides those: a room for each that is left
        running would be as many shares of the processor. OSError, LauncherGone as for `spawn`.
        """
        if not self._room or len(groups.pids_in(self._room)) <= FEW_IN_A_ROOM + len(taking):
            return
        room = groups.new_room()
        fds = groups.leader_fds(room)
        try:
            self.tell("group", fds[:2])
        finally:
            for fd in fds:
                os.close(fd)
        self._room = room
        for pid in taking:
            with contextlib.suppress(ProcessLookupError):
                groups.write(room, "cgroup.procs", pid)
        groups.leave_other_rooms(room)

    def close(self, timeout_s: float) -> bool:
        """End the leader and so everything in its PID namespace: whether it was gone in time. Can be asked again if not."""
        deadline = time.monotonic() + timeout_s
        self._leader.kill()
        while self._leader.wait(LEADER_PAUSE_S) is None:
            if time.monotonic() >= deadline:
                return False
            see_ends()
        self._launcher.close()
        self._leader.close()
        return True


def pids_in_namespace_of(leader_pid: int) -> list[int]:
    """Every process in the leader's PID namespace but the leader, by a walk over /proc."""
    try:
        namespace = os.readlink(f"/proc/{leader_pid}/ns/pid")
    except OSError:
        return []
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit() and int(name) != leader_pid:
            try:
                if os.readlink(f"/proc/{name}/ns/pid") == namespace:
                    found.append(int(name))
            except OSError:  # ended since, or a zombie: it has left its namespaces
                continue
    return found


def plan_view(machine: Machine, shm_bytes: int) -> dict[str, Any]:
    """What a leader is told about the view it has to build."""
    return {
        "root": VIEW_ROOT,
        "nothing": NOTHING,
        "empty": EMPTY,
        "binds": student_binds(machine),
        "shm_bytes": shm_bytes,
        "groups": machine.use_cgroups,
        "max_processes": None,
        "real_time": machine.state.get("real_time", False),
        "uid": STUDENT_UID,
        "machine_network": False,
        "fixed_addresses": machine.fixed_addresses,
    }


def make_leader(machine: Machine, shm_bytes: int) -> Session:
    """A leader that waits for a session to begin. Nothing in it is secret or random, so a snapshot may hold one."""
    room = groups.new_room() if machine.use_cgroups else ""
    return launch(machine, plan_view(machine, shm_bytes), room)


def launch(machine: Machine, plan: dict[str, Any], group: str) -> Session:
    """A leader with this view, whose processes are born in `group`."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    launcher: Launcher = machine.state["launcher"]
    fds = groups.leader_fds(group) if machine.use_cgroups else []
    try:
        with theirs:
            leader = launcher.start_leader(plan, [theirs.fileno(), *fds])
    finally:
        for fd in fds:
            os.close(fd)
    ours.settimeout(LEADER_START_TIMEOUT_S)
    if receive(ours) is None:
        raise OSError(f"the session's leader ended with {leader.wait(1.0)} before it was ready; see the console")
    return Session(Launcher(ours), leader, room=group)


def start_session(machine: Machine, params: dict[str, Any]) -> list[dict[str, Any]]:
    """Put the limits in force, then let the session begin. Returns the contracts."""
    if machine.session is not None:
        raise Refused("session-running", "a session is running; end it first")
    if "live-grading" in machine.state:
        raise Refused("refused", "this machine is being graded; no student may enter")
    standby: Session | None = machine.state.pop("standby", None)
    session = standby or make_leader(machine, machine.limits.shm_bytes(params.get("memory_bytes")))
    session.tell("hostname", value=os.uname().nodename)
    if params.get("machine_network"):
        _join_machine_network(session)
    contracts: list[dict[str, Any]] = machine.limits.begin(session, params)
    machine.session = session
    return contracts


def _join_machine_network(session: Session) -> None:
    """Where services live that the student is to reach: as bare as its own, a loopback interface and no other."""
    loopback_up()
    network = os.open("/proc/self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    try:
        session.tell("network", [network])
    finally:
        os.close(network)


def end_session(machine: Machine, timeout_s: float) -> tuple[int, list[int]]:
    """Kill all that the student runs, prove it, and close the session: (killed, survivors)."""
    session: Session | None = machine.session
    if session is None:
        raise Refused("no-session", "no session is running")
    machine.limits.end()  # first: a watchdog that walks over the dying takes the time that they need to die
    deadline = time.monotonic() + timeout_s
    killed, left = kill_everything(machine, session.uid, timeout_s)
    if left:
        return killed, left
    if not session.close(max(deadline - time.monotonic(), LEADER_END_S)):
        return killed, [session.leader_pid]
    machine.session = None
    return killed, []


def _start(machine: Machine, call: Call) -> tuple[dict[str, Any], bytes]:
    with machine.state["session-lock"]:
        contracts = start_session(machine, call.params)
    call.afterwards.append(functools.partial(shell.start, machine))
    return {"contracts": contracts}, b""


def _end(machine: Machine, call: Call) -> tuple[dict[str, Any], bytes]:
    timeout_s = call.params.get("timeout_s", 30.0)
    if isinstance(timeout_s, bool) or not isinstance(timeout_s, int | float) or not 0 <= timeout_s <= 3600:
        raise Refused("bad-params", f"timeout_s {timeout_s!r:.50} must be from 0 to 3600 seconds")
    with machine.state["session-lock"]:
        killed, left = end_session(machine, timeout_s)
    return {"killed": killed, "left": left}, b""


METHODS = {"session_start": _start, "session_end": _end}
