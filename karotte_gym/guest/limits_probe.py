"""What this kernel really enforces: each limit is tried on a process that breaks it. Runs once, before the snapshot.

Writing a number to a control file proves nothing; some sandboxes take it and let everything pass. So a process in a
throw-away group takes more than its share, and what counts is what became of it.
"""

from __future__ import annotations

import errno
import json
import os
import time
from collections.abc import Iterator

from . import groups, quota, syscalls
from .calls import Machine
from .confine import STUDENT_UID
from .places import SCRATCH
from .spawning import CallFailed, Launcher

__all__ = ["probe_limits"]

PROBE_GROUP = f"{groups.ROOT}/probe"
MIB = 1 << 20
MEMORY_LIMIT, MEMORY_TAKEN = 24 * MIB, 96 * MIB
PIDS_LIMIT, PIDS_TAKEN = 8, 16
FILES_LIMIT, FILES_TAKEN = 8, 16
DISK_LIMIT, DISK_TAKEN, CHUNK = 1 * MIB, 4 * MIB, 65536
PROBE_TIMEOUT_S = 60.0
WATCHED = "detected_and_reaped"
Evidence = tuple[str, str]  # enforcement, one sentence


def probe_limits(machine: Machine) -> dict[str, Evidence]:
    """Resource to (enforcement, sentence), for memory, processes, disk_bytes and disk_files."""
    launcher: Launcher = machine.state["launcher"]
    watched = "no control groups here: a watchdog adds up all that the student has every 0.1 s and kills its processes"
    memory, processes = (WATCHED, watched), (WATCHED, f"{watched}; RLIMIT_NPROC stands behind it")
    if machine.use_cgroups:
        memory, processes = _probe_memory(launcher), _probe_processes(launcher)
    disk_bytes, disk_files = _probe_disk(launcher)
    return {"memory": memory, "processes": processes, "disk_bytes": disk_bytes, "disk_files": disk_files}


def _probe_memory(launcher: Launcher) -> Evidence:
    with _group("memory.max", MEMORY_LIMIT):
        try:
            launcher.call(take_memory, MEMORY_TAKEN, timeout_s=PROBE_TIMEOUT_S, max_bytes=100)
        except CallFailed:
            kills = dict(line.split() for line in groups.read(PROBE_GROUP, "memory.events").splitlines())["oom_kill"]
            if kills != "0":
                return "prevented", f"a process that took {MEMORY_TAKEN >> 20} of {MEMORY_LIMIT >> 20} MiB was killed"
    return WATCHED, f"a process took {MEMORY_TAKEN >> 20} MiB in a group of {MEMORY_LIMIT >> 20}: the watchdog holds it"


def _probe_processes(launcher: Launcher) -> Evidence:
    with _group("pids.max", PIDS_LIMIT):
        made = int(launcher.call(take_processes, PIDS_TAKEN, timeout_s=PROBE_TIMEOUT_S, max_bytes=100))
    if made < PIDS_LIMIT:
        return "prevented", f"fork failed with EAGAIN after {made} children in a group of {PIDS_LIMIT}"
    return WATCHED, f"{made} children were made in a group of {PIDS_LIMIT}: the watchdog counts them"


class _group:
    """The throw-away group, gone afterwards whatever happened."""

    def __init__(self, file: str, value: int):
        os.mkdir(PROBE_GROUP)
        groups.no_swap(PROBE_GROUP)
        groups.write(PROBE_GROUP, file, value)

    def __enter__(self) -> None:
        return None

    def __exit__(self, *exc: object) -> None:
        groups.remove(PROBE_GROUP)


def take_memory(size: int) -> bytes:
    """Join the probe's group and touch `size` bytes."""
    groups.write(PROBE_GROUP, "cgroup.procs", 0)
    taken = bytearray(size)
    for at in range(0, size, 4096):
        taken[at] = 1
    return b"alive"


def take_processes(count: int) -> bytes:
    """Join the probe's group and fork until it fails; how many children there were. They end with the group."""
    groups.write(PROBE_GROUP, "cgroup.procs", 0)
    for made in range(count):
        try:
            if os.fork() == 0:
                syscalls.close_range(0)  # the pipe of the answer, too: it would never end
                time.sleep(PROBE_TIMEOUT_S)
                os._exit(0)
        except OSError as error:
            if error.errno != errno.EAGAIN:
                raise
            return str(made).encode()
    return str(count).encode()


def _probe_disk(launcher: Launcher) -> tuple[Evidence, Evidence]:
    if not quota.supported():
        said = "the scratch disk keeps no quota: its size is its limit, and a watchdog counts each second for less"
        return (WATCHED, said), (WATCHED, said)
    place = f"{SCRATCH}/probe"
    os.mkdir(place, 0o700)
    os.chown(place, STUDENT_UID, STUDENT_UID)
    there = quota.usage(STUDENT_UID)  # the task's data is the student's already
    quota.put(STUDENT_UID, (there[0] + DISK_LIMIT, there[1] + FILES_LIMIT))
    try:
        report = json.loads(launcher.call(take_disk, place, timeout_s=PROBE_TIMEOUT_S, max_bytes=200))
    finally:
        for name in os.listdir(place):
            os.unlink(f"{place}/{name}")
        os.rmdir(place)
        quota.put(STUDENT_UID, (None, None))
    held = report["bytes"] <= DISK_LIMIT, report["files"] < FILES_TAKEN
    said = f"wrote {report['bytes']} of {DISK_TAKEN} bytes under a quota of {DISK_LIMIT}"
    counted = f"made {report['files']} of {FILES_TAKEN} files under a quota of {FILES_LIMIT}"
    return ("prevented" if held[0] else WATCHED, said), ("prevented" if held[1] else WATCHED, counted)


def take_disk(place: str) -> bytes:
    """As the student's uid: write and make files until it fails. Runs in a fork that ends with it."""
    os.chdir(place)  # by its path only root gets there
    os.setgroups([])
    os.setresgid(STUDENT_UID, STUDENT_UID, STUDENT_UID)
    os.setresuid(STUDENT_UID, STUDENT_UID, STUDENT_UID)
    files = _until_refused(_make_files())  # first: a file needs no space, but its name may need a block
    size = _until_refused(_write_file())
    return json.dumps({"bytes": size, "files": files}).encode()


def _make_files() -> Iterator[int]:
    for made in range(FILES_TAKEN):
        os.close(os.open(str(made), os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        yield made + 1


def _write_file() -> Iterator[int]:
    with open("0", "wb", buffering=0) as file:
        for size in range(0, DISK_TAKEN, CHUNK):
            yield size + file.write(bytes(CHUNK))


def _until_refused(attempts: Iterator[int]) -> int:
    """How far they came. Only the refusals that a limit makes end them; any other error is one."""
    reached = 0
    try:
        for count in attempts:
            reached = count
    except OSError as error:
        if error.errno not in (errno.EDQUOT, errno.ENOSPC):
            raise
    return reached
