"""Kills every process of a user and proves it: `kill_everything`, and the `kill` call.

A reaper that walks a list of pids loses against relays that fork and die faster than it walks, and against rings that
wake each other. The kernel does not: the control group's kill and ``kill(-1)`` both take their snapshot under the lock
that fork needs, and a process with a fatal signal pending can't fork. So the kernel kills, and the walk over /proc only
proves. What a single walk can miss (a child that gets a pid behind the walker) is not missed by two walks that agree
with a kill of everything between them.
"""

from __future__ import annotations

import os
import signal
import time
from typing import Any

from .calls import Call, Handler, Machine, Refused
from .killer import RESERVED_UID, Killer
from .process_table import living

__all__ = ["METHODS", "end_processes", "kill_everything", "prefork"]

STUDENT_GROUP_KILL = "/sys/fs/cgroup/student/cgroup.kill"
STUDENT_GROUP_EVENTS = "/sys/fs/cgroup/student/cgroup.events"
CLEAN_SWEEPS = 2
MAX_REST_S = 1.0  # the longest rest that the killed are given before they are looked at again
GROUP_PAUSE_S = 0.002  # between looks whether the group is empty
MAX_PAUSE_S = 0.02  # between two rounds; a killed process that has much memory to give back needs time, not signals
ESCALATE_AFTER_S = 2.0  # then the leader of the session's PID namespace goes, and the kernel ends all that is in it
MAX_LEFT = 500  # survivors named in an answer; a frame's header is bounded


def prefork(machine: Machine) -> None:
    """Start the process that will send the signals, while there is room in the process table and memory for it."""
    _killer(machine).ensure()


def kill_everything(machine: Machine, uid: int, timeout_s: float) -> tuple[int, list[int]]:
    """Kill all processes of `uid`, wherever they are: (how many were seen and killed, pids of survivors).

    No survivors means that two complete walks over /proc in a row found nothing, each after a kill of everything.
    Zombies are dead. Raises Refused for root, for the caller's own uid and for the uid the killer itself uses.
    """
    _refuse_own(uid)
    deadline = time.monotonic() + timeout_s
    escalate_at = time.monotonic() + min(ESCALATE_AFTER_S, timeout_s / 2)
    seen = {(process.pid, process.start) for process in living(uid)}
    clean, pause_s = 0, 0.001
    while True:
        started = time.monotonic()
        end_processes(machine, uid)
        left = living(uid)
        seen.update((process.pid, process.start) for process in left)
        clean = 0 if left else clean + 1
        if clean == CLEAN_SWEEPS:
            return len(seen), []
        if left:
            _kill_one_by_one([process.pid for process in left])
            if time.monotonic() >= deadline:
                return len(seen), sorted(process.pid for process in left)[:MAX_LEFT]
            if time.monotonic() >= escalate_at:
                _kill_the_namespace(machine, uid)
            # A walk over a thousand processes takes a second when emulated. The killed need the processor to end: with
            # the agent before them at every moment they are still there after half a minute.
            time.sleep(min(max(pause_s, time.monotonic() - started), MAX_REST_S))
            pause_s = min(pause_s * 2, MAX_PAUSE_S)


def end_processes(machine: Machine, uid: int, rest_s: float = MAX_REST_S) -> None:
    """Kill all processes of `uid`, as only the kernel can, and give them a moment to die. No proof of it."""
    if machine.use_cgroups and uid == _session_uid(machine):
        _kill_the_group(rest_s)
    _killer(machine).kill_all_of(uid)


def _refuse_own(uid: object) -> None:
    if isinstance(uid, bool) or not isinstance(uid, int) or not 0 <= uid < 2**32 - 1:
        raise Refused("bad-params", f"uid {uid!r:.50} is no user number")
    if uid in (0, os.getuid(), os.geteuid(), RESERVED_UID):
        raise Refused("refused", f"uid {uid} is the harness's own; only another user's processes can be killed")


def _kill_the_group(rest_s: float) -> None:
    """Kill it at once, and leave the processor to the dying for a while: to look at them all the time costs more."""
    try:
        descriptor = os.open(STUDENT_GROUP_KILL, os.O_WRONLY | os.O_CLOEXEC)
    except FileNotFoundError:  # no such group, or a kernel before 5.14: the other ways do
        return
    try:
        os.write(descriptor, b"1")
    finally:
        os.close(descriptor)
    empty_by = time.monotonic() + rest_s
    while _is_populated() and time.monotonic() < empty_by:
        time.sleep(GROUP_PAUSE_S)


def _is_populated() -> bool:
    with open(STUDENT_GROUP_EVENTS) as file:
        return "populated 1" in file.read()


def _kill_one_by_one(pids: list[int]) -> None:
    """For those that kill(-1) as the user may not signal: only their effective or file system uid is the user's."""
    for pid in pids:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue


def _kill_the_namespace(machine: Machine, uid: int) -> None:
    leader = getattr(machine.session, "leader_pid", None)
    if leader is not None and uid == _session_uid(machine):
        _kill_one_by_one([leader])


def _session_uid(machine: Machine) -> int | None:
    return getattr(machine.session, "uid", None)


def _killer(machine: Machine) -> Killer:
    if "processes" not in machine.state:
        machine.state["processes"] = Killer(real_time=machine.state.get("real_time", False))
    killer: Killer = machine.state["processes"]
    return killer


def _kill(machine: Machine, call: Call) -> tuple[dict[str, Any], bytes]:
    timeout_s = call.params.get("timeout_s", 30.0)
    if isinstance(timeout_s, bool) or not isinstance(timeout_s, int | float) or not 0 <= timeout_s <= 3600:
        raise Refused("bad-params", f"timeout_s {timeout_s!r:.50} must be from 0 to 3600 seconds")
    uid: Any = call.params.get("uid")
    killed, left = kill_everything(machine, uid, timeout_s)
    return {"killed": killed, "left": left}, b""


METHODS: dict[str, Handler] = {"kill": _kill}
