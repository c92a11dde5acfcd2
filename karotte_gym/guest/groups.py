"""Control groups (version 2) of a machine: the agent's, protected; the student's, limited. Files and numbers only.

The student's group holds rooms, which share its limits and differ in their share of its processor alone: a shell that
leaves a room full of busy processes (a bomb of forks, dying or alive) doesn't wait for its turn among them any more.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import time

from . import syscalls

__all__ = [
    "AGENT", "ROOT", "STUDENT", "leader_fds", "leave_other_rooms", "make_groups", "new_room", "no_swap", "pids_in", "read",
    "remove", "students_pids", "write",
]  # fmt: skip

ROOT = "/sys/fs/cgroup"
AGENT = f"{ROOT}/agent"
STUDENT = f"{ROOT}/student"
AGENT_MEMORY_BYTES = 64 << 20  # never reclaimed from the agent: twice what it was seen to use with all its modules
# Shares of the processor when both want it; 100 is the default. The agent is also real-time, this is for its children.
AGENT_WEIGHT, STUDENT_WEIGHT = 1000, 100
ROOM_WEIGHT, LEFT_WEIGHT = 500, 100  # of the room that the shell is in, and of all together that it has left
_numbers = itertools.count()


def write(group: str, file: str, value: object) -> None:
    """Write one control file."""
    descriptor = os.open(f"{group}/{file}", os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(descriptor, str(value).encode())
    finally:
        os.close(descriptor)


def read(group: str, file: str) -> str:
    """One control file, stripped."""
    with open(f"{group}/{file}") as opened:
        return opened.read().strip()


def make_groups() -> None:
    """Mount the hierarchy and make the two groups; the caller's process moves into the agent's."""
    if not os.path.exists(f"{ROOT}/cgroup.procs"):
        flags = syscalls.MS_NOSUID | syscalls.MS_NODEV | syscalls.MS_NOEXEC
        syscalls.mount("cgroup2", ROOT, "cgroup2", flags, "memory_recursiveprot")
    write(ROOT, "cgroup.subtree_control", "+memory +pids +cpu")
    for group, weight in ((AGENT, AGENT_WEIGHT), (STUDENT, STUDENT_WEIGHT)):
        os.makedirs(group, exist_ok=True)
        write(group, "cpu.weight", weight)
    write(AGENT, "memory.min", AGENT_MEMORY_BYTES)
    write(AGENT, "cgroup.procs", os.getpid())
    write(STUDENT, "memory.oom.group", 1)
    write(STUDENT, "cgroup.subtree_control", "+cpu")
    no_swap(STUDENT)


def no_swap(group: str) -> None:
    """A kernel without swap has no such file, which is as good."""
    with contextlib.suppress(FileNotFoundError):
        write(group, "memory.swap.max", 0)


def new_room() -> str:
    """An empty room of the student's."""
    room = f"{STUDENT}/{next(_numbers)}"
    os.mkdir(room)
    write(room, "cpu.weight", ROOM_WEIGHT)
    return room


def leave_other_rooms(room: str) -> None:
    """All others give way to this one when both want the processor; the empty ones go."""
    left = []
    for other in _rooms():
        if other != room:
            try:
                os.rmdir(other)
            except OSError:  # somebody is in there
                left.append(other)
    for other in left:
        write(other, "cpu.weight", max(1, LEFT_WEIGHT // len(left)))


def students_pids() -> list[int]:
    """Processes in the student's rooms; zombies may be among them."""
    return [pid for room in _rooms() for pid in pids_in(room)]


def _rooms() -> list[str]:
    return [entry.path for entry in os.scandir(STUDENT) if entry.is_dir()]


def leader_fds(of: str) -> list[int]:
    """A group, its list of processes and the agent's, for a leader, which can't see the hierarchy."""
    group = os.open(of, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    return [group, *(os.open(f"{name}/cgroup.procs", os.O_WRONLY | os.O_CLOEXEC) for name in (of, AGENT))]


def pids_in(group: str) -> list[int]:
    """Processes in a group."""
    return [int(word) for word in read(group, "cgroup.procs").split()]


def remove(group: str, timeout_s: float = 2.0) -> None:
    """Kill what is in a group and remove it; a killed process leaves it a moment after its end."""
    write(group, "cgroup.kill", 1)
    deadline = time.monotonic() + timeout_s
    while True:
        try:
            os.rmdir(group)
            return
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.001)
