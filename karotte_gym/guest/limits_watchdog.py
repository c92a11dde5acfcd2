"""Holds limits where the kernel does not: adds up what the student has, and ends all its processes when it is too much.

Cheap sums first: resident pages, whoever shares them. Only when these are over the limit the exact ones are read
(proportional shares), so that nobody is killed for the C library's pages. Memory that belongs to no process counts as
well: files in /dev/shm, memory files, System V segments. Root's is never counted: its memory-backed file systems are
subtracted, and of processes only those in the student's PID namespace are looked at.
"""

from __future__ import annotations

import os
import resource
import subprocess
import threading
import time
from collections.abc import Iterator
from typing import Any

from . import syscalls
from .calls import Machine
from .confine import STUDENT_UID
from .processes import prefork
from .scratch_usage import ScratchUsage

__all__ = ["Watchdog"]

TASKS_EVERY_S = 0.1
FILES_EVERY_S = 1.0
PAGE = os.sysconf("SC_PAGESIZE")


class Watchdog:
    """One thread, alive while a session runs and there is something to watch."""

    def __init__(self, machine: Machine):
        self._machine = machine
        self._limits: dict[str, int | None] = {}
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._session: Any = None
        self.kills = 0  # how often it had to act

    def put(self, name: str, value: int | None) -> None:
        """Set one limit; None lifts it."""
        self._limits = {**self._limits, name: value}

    def get(self, name: str) -> int | None:
        """One limit as it is watched."""
        return self._limits.get(name)

    def begin(self, session: Any) -> None:
        """Watch a session, if any limit is ours."""
        self._session = session
        if not self._limits:
            return
        prefork(self._machine)
        self._stop.clear()
        self._thread = threading.Thread(target=self._watch, name="watchdog", daemon=True)
        self._thread.start()

    def end(self) -> None:
        """Stop watching."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None

    def raise_floor(self, session: Any, count: int | None) -> None:
        """Give the processes that run already another RLIMIT_NPROC."""
        value = resource.RLIM_INFINITY if count is None else count
        for pid in session.pids():
            try:
                resource.prlimit(pid, resource.RLIMIT_NPROC, (value, value))
            except ProcessLookupError:
                continue

    def _watch(self) -> None:
        syscalls.become_important()
        usage = ScratchUsage(STUDENT_UID)
        files_at = 0.0
        while not self._stop.is_set():
            started = time.monotonic()
            over = self._too_many_tasks()
            if not over and started >= files_at:
                over = usage.over(self._limits.get("file_bytes"), self._limits.get("file_count"))
                files_at = started + FILES_EVERY_S
            if over:
                self._reap()
            # A sweep over thousands of processes takes long when emulated: never more than a quarter of the time.
            self._stop.wait(max(TASKS_EVERY_S, 3 * (time.monotonic() - started)))

    def _too_many_tasks(self) -> bool:
        processes, memory = self._limits.get("process_count"), self._limits.get("memory_bytes")
        tasks = list(_tasks(self._session.leader_pid))
        if processes is not None and sum(task.threads for task in tasks) > processes:
            return True
        if memory is None:
            return False
        unowned = unowned_bytes(shared_memory_bytes(), roots_tmpfs_bytes())
        if sum(task.resident_bytes for task in tasks) + unowned <= memory:
            return False
        return sum(exact_bytes(task.pid) for task in tasks) + unowned > memory

    def _reap(self) -> None:
        """End everything of the student's at once; then take away memory that outlives processes, if it is too much."""
        self.kills += 1
        self._machine.state["processes"].kill_all_of(STUDENT_UID)
        memory = self._limits.get("memory_bytes")
        if memory is None:
            return
        time.sleep(TASKS_EVERY_S / 2)  # the killed give their memory back a moment later
        if unowned_bytes(shared_memory_bytes(), roots_tmpfs_bytes()) > memory // 2:
            self._session.call_as_root(remove_memory_objects, timeout_s=20.0, max_bytes=100)


class _Task:
    __slots__ = ("pid", "resident_bytes", "threads")

    def __init__(self, pid: int, threads: int, resident_bytes: int):
        self.pid, self.threads, self.resident_bytes = pid, threads, resident_bytes


def _tasks(leader_pid: int) -> Iterator[_Task]:
    """The student's living processes: those in the leader's PID namespace, by one walk over /proc."""
    try:
        namespace = os.readlink(f"/proc/{leader_pid}/ns/pid")
    except OSError:  # the session is ending
        return
    for name in os.listdir("/proc"):
        if not name.isdigit() or int(name) == leader_pid:
            continue
        try:
            if os.readlink(f"/proc/{name}/ns/pid") != namespace:
                continue
            with open(f"/proc/{name}/stat", "rb") as file:
                fields = file.read().rpartition(b")")[2].split()
        except OSError:  # it has ended since, or is a zombie, which is in no namespace
            continue
        if fields[0] != b"Z":
            yield _Task(int(name), int(fields[17]), int(fields[21]) * PAGE)


def exact_bytes(pid: int) -> int:
    """A process's own and proportional memory without what is counted as unowned; 0 when it has ended."""
    total = 0
    try:
        with open(f"/proc/{pid}/smaps_rollup") as file:
            for line in file:
                if line.startswith(("Pss_Anon:", "Pss_File:")):
                    total += int(line.split()[1]) * 1024
    except OSError:
        return 0
    return total


def shared_memory_bytes() -> int:
    """All memory behind tmpfs, memory files and shared segments in the machine."""
    with open("/proc/meminfo") as file:
        for line in file:
            if line.startswith("Shmem:"):
                return int(line.split()[1]) * 1024
    raise OSError("/proc/meminfo has no line Shmem")


def roots_tmpfs_bytes() -> int:
    """What of it is in root's file systems. The student's are in another mount namespace and not among them."""
    total = 0
    seen = set()
    with open("/proc/self/mountinfo") as file:
        for line in file:
            before, _, after = line.partition(" - ")
            fields = before.split()
            if after.split()[0] in ("tmpfs", "devtmpfs") and fields[2] not in seen:
                seen.add(fields[2])
                facts = os.statvfs(fields[4])
                total += (facts.f_blocks - facts.f_bfree) * facts.f_frsize
    return total


def unowned_bytes(shared: int, roots: int) -> int:
    """The student's part of memory that no process need have mapped."""
    return max(0, shared - roots)


def remove_memory_objects() -> bytes:
    """Runs as root in the session's namespaces: all in /dev/shm goes, however deep it lies, and every System V segment."""
    command = ["/usr/bin/find", "/dev/shm", "-mindepth", "1", "-delete"]
    null = subprocess.DEVNULL
    subprocess.run(command, env={}, cwd="/", stdin=null, stdout=null, stderr=null, check=False)  # others may be at work there
    with open("/proc/sysvipc/shm") as file:
        for line in file.readlines()[1:]:
            syscalls.shm_remove(int(line.split()[1]))
    return b""
