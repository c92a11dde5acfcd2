"""Whether the machines fit onto this host, and what is handed in into the machines."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator

import psutil

from karotte_gym.sandbox import cache
from karotte_gym.validate.bench import Bench
from karotte_gym.validate.finding import Finding, fail, warn
from karotte_gym.validate.workers import MIB, needed_mib

__all__ = ["check_hardware", "check_submission_limits"]

KERNEL_MIB = 160  # of a machine's RAM, for kernel and agent; what the memory limit is by default derived from
RESERVE_SHARE = 0.1  # of a scratch disk, for the file system's own tables
STEP_INODES = 64  # what is on a fresh scratch disk besides the task's data


def check_hardware(bench: Bench) -> Iterator[Finding]:
    """Memory and processors of the host, space for the disks, and the task's data on its scratch disk."""
    task = bench.task_class
    needed, memory = needed_mib(task), psutil.virtual_memory()
    smaller = "ask for less memory_mib in hardware and grader_hardware, or run on a larger host"
    if needed > memory.total // MIB:
        yield fail(f"an episode needs {needed} MiB of memory, this host has {memory.total // MIB}", smaller)
    elif needed > memory.available // MIB:
        yield warn(f"an episode needs {needed} MiB of memory, {memory.available // MIB} are free now", smaller)
    cpus = max(task.hardware.cpus, task.grader_hardware.cpus)
    if cpus > (os.cpu_count() or 1):
        yield warn(f"a machine has {cpus} processors, this host {os.cpu_count()}", "ask for fewer cpus: they share the host's")
    free_mib = shutil.disk_usage(cache.cache_root()).free // MIB
    if task.hardware.disk_mib > free_mib:
        found = f"a scratch disk may grow to {task.hardware.disk_mib} MiB, the cache's disk has {free_mib} free"
        yield warn(found, "ask for less disk_mib, or put the cache elsewhere")
    yield from _data(bench)
    yield from _memory_limit(bench)


def check_submission_limits(bench: Bench) -> Iterator[Finding]:
    """What custody accepts has to fit on the disks that it is taken from and graded on."""
    task, limits = bench.task_class, bench.task_class.submission_limits
    if limits.max_file_bytes > limits.max_total_bytes:
        found = f"max_file_bytes {limits.max_file_bytes} is more than max_total_bytes {limits.max_total_bytes}"
        yield warn(found, "lower max_file_bytes")
    for name, hardware in (("student's", task.hardware), ("grader's", task.grader_hardware)):
        room = int(hardware.disk_mib * MIB * (1 - RESERVE_SHARE))
        if limits.max_total_bytes > room:
            found = f"a submission may have {limits.max_total_bytes // MIB} MiB, the {name} disk has {hardware.disk_mib}"
            yield warn(found, "lower submission_limits.max_total_bytes, or ask for more disk_mib")
    if limits.max_total_bytes == 0 and any(step.submission_paths for step in task.steps):
        yield fail("submission_limits.max_total_bytes is 0: only empty files are accepted", "raise it")


def _data(bench: Bench) -> Iterator[Finding]:
    """student_data is copied onto the scratch disk, shared_data and root_data are not."""
    hardware = bench.task_class.hardware
    files = [path for path in (bench.folder / "student_data").rglob("*") if not path.is_dir()]
    size_mib = sum(path.lstat().st_size for path in files) / MIB
    if size_mib > hardware.disk_mib * (1 - RESERVE_SHARE):
        found = f"student_data has {size_mib:.0f} MiB, the scratch disk {hardware.disk_mib}"
        yield fail(found, "ask for more disk_mib, or move what the student only reads to shared_data/")
    if len(files) + STEP_INODES > hardware.disk_inodes:
        yield fail(f"student_data has {len(files)} files, the scratch disk {hardware.disk_inodes} inodes", "raise disk_inodes")


def _memory_limit(bench: Bench) -> Iterator[Finding]:
    limit, memory_mib = bench.task_class.limits.memory_bytes, bench.task_class.hardware.memory_mib
    if limit is not None and limit > (memory_mib - KERNEL_MIB) * MIB:
        found = f"limits.memory_bytes is {limit // MIB} MiB, the machine has {memory_mib} and needs {KERNEL_MIB} itself"
        yield warn(found, "lower the limit, or ask for more memory_mib")
