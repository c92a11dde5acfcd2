"""How many machines at a time fit into this host's memory."""

from __future__ import annotations

import psutil

from karotte_gym.task import Task

__all__ = ["MIB", "OVERHEAD_MIB", "fitting_workers", "needed_mib"]

MIB = 1024 * 1024
OVERHEAD_MIB = 64  # of an emulator beside its machine's RAM: 35 MiB measured, and something for its disk's cache


def needed_mib(task: type[Task]) -> int:
    """RAM of an episode at its worst: the student's machine and the grader's, both filled."""
    machines = [task.student_machine()]
    machines += [spec for step in task.steps if (spec := step.judge.machine(task.grader_needs())) is not None][:1]
    return sum(spec.hardware.memory_mib + OVERHEAD_MIB for spec in machines)


def fitting_workers(task: type[Task], wanted: int) -> int:
    """At most `wanted`, at least one."""
    available_mib = psutil.virtual_memory().available // MIB
    return max(1, min(wanted, available_mib // needed_mib(task)))
