"""The control group of a scoring script: a bound on its memory, and one switch that kills all that it started."""

from __future__ import annotations

import contextlib
import os
import time
from dataclasses import dataclass

__all__ = ["GradingGroup"]

ROOT = "/sys/fs/cgroup"
GROUP = f"{ROOT}/grading"
EMPTY_WITHIN_S = 10.0  # killed processes with much memory take a moment


@dataclass(frozen=True, slots=True)
class GradingGroup:
    """`/grading` with the script's own group below it; `karotte_grading` puts its runs beside that one."""

    path: str
    script: str

    @classmethod
    def create(cls) -> GradingGroup | None:
        """Without a bound as yet. None where the kernel has no memory controller in the unified hierarchy."""
        if not _controllers_on(ROOT):
            return None
        group = cls(GROUP, f"{GROUP}/script")
        with contextlib.suppress(FileExistsError):
            os.mkdir(group.path)
        with contextlib.suppress(FileNotFoundError):  # a kernel without swap has no such file
            _write(f"{group.path}/memory.swap.max", "0")
        if not _controllers_on(group.path):
            raise OSError(f"{group.path} does not hand its controllers down")
        with contextlib.suppress(FileExistsError):
            os.mkdir(group.script)
        _write(f"{group.script}/memory.oom.group", "1")
        return group

    def limit(self, memory_bytes: int | None) -> None:
        """Bound the memory of all that is in it, and of its pages in the file cache."""
        _write(f"{self.path}/memory.max", "max" if memory_bytes is None else str(memory_bytes))

    def take(self, pid: int) -> None:
        """Move a process in. The kernel waits for all processors to notice, some hundredths of a second under emulation."""
        _write(f"{self.script}/cgroup.procs", str(pid))

    def destroy(self) -> None:
        """Kill everything in it and remove it; OSError when it does not become empty."""
        _write(f"{self.path}/cgroup.kill", "1")
        deadline = time.monotonic() + EMPTY_WITHIN_S
        while "populated 0" not in _read(f"{self.path}/cgroup.events"):
            if time.monotonic() > deadline:
                raise OSError(f"{self.path} still has processes {EMPTY_WITHIN_S} s after it was killed")
            time.sleep(0.002)
        for name in sorted(os.listdir(self.path)):
            if os.path.isdir(f"{self.path}/{name}"):
                os.rmdir(f"{self.path}/{name}")
        os.rmdir(self.path)


def _controllers_on(path: str) -> bool:
    """Hand memory and processes down to the groups below `path`. False where there is no such controller."""
    try:
        if not {"memory", "pids"} <= set(_read(f"{path}/cgroup.controllers").split()):
            return False
    except FileNotFoundError:
        return False
    _write(f"{path}/cgroup.subtree_control", "+memory +pids")
    return True


def _read(path: str) -> str:
    with open(path, encoding="ascii") as stream:
        return stream.read()


def _write(path: str, text: str) -> None:
    with open(path, "w", encoding="ascii") as stream:
        stream.write(text)
