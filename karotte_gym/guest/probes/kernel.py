"""What the kernel shows of itself and lets itself be told in /proc and /sys: opened as the student, not read about."""

from __future__ import annotations

import os
import resource
import stat
from collections.abc import Iterator

from .tree import Finding, Probe, Tree

__all__ = ["LIVE_PROBES"]

_MEMORY = (
    "/dev/mem", "/dev/kmem", "/dev/port", "/proc/kcore", "/proc/kpagecount", "/proc/kpageflags",
    "/proc/kpagecgroup",
)  # fmt: skip
_LOGS = ("/dev/kmsg", "/proc/kmsg")
_TRIGGERS = (
    "/proc/sysrq-trigger", "/proc/sys/kernel/core_pattern", "/proc/sys/kernel/modprobe",
    "/proc/sys/kernel/hotplug", "/proc/sys/fs/binfmt_misc/register", "/sys/kernel/uevent_helper",
    "/sys/power/state", "/proc/acpi/wakeup", "/proc/sys/kernel/ns_last_pid", "/proc/sys/vm/drop_caches",
    "/proc/sys/kernel/sysrq", "/proc/mtrr", "/proc/scsi/scsi",
)  # fmt: skip
_ADDRESSES = ("/proc/kallsyms", "/proc/modules", "/proc/vmallocinfo", "/proc/timer_list", "/sys/kernel/notes")
_MACHINE = (
    "/proc/slabinfo", "/proc/iomem", "/proc/ioports", "/proc/cmdline", "/proc/keys", "/proc/key-users",
    "/proc/sched_debug",
)  # fmt: skip
_DEBUG = ("/sys/kernel/debug", "/sys/kernel/tracing", "/sys/fs/bpf", "/sys/kernel/security", "/sys/kernel/config",
          "/sys/firmware", "/sys/fs/pstore", "/sys/hypervisor")  # fmt: skip
_GROUPS = ("/sys/fs/cgroup", "/run/cgroup", "/proc/1/root/sys/fs/cgroup")
MAX_SETTINGS = 5_000
_MASK = "mask it in guest/view.py"


def kernel_memory(_tree: Tree) -> Iterator[Finding]:
    """Memory of the kernel is everybody's memory."""
    yield from _open_for_reading(_MEMORY)


def kernel_log_files(_tree: Tree) -> Iterator[Finding]:
    """The log by its device instead of by the system call."""
    yield from _open_for_reading(_LOGS)


def kernel_addresses(_tree: Tree) -> Iterator[Finding]:
    """Addresses of the kernel undo its randomization, which an exploit would otherwise have to guess."""
    for path in _ADDRESSES:
        content = _beginning(path)
        shown = path if content and any(_is_address(word) for word in content.split()) else ""
        if shown:
            yield Finding(f"{shown} shows addresses of the kernel", "set kernel.kptr_restrict to 2 and mask the file")


def machine_details(_tree: Tree) -> Iterator[Finding]:
    """Tables of the kernel's that tell about the harness: its command line, keys, devices and allocations."""
    yield from _open_for_reading(_MACHINE)


def kernel_settings(_tree: Tree) -> Iterator[Finding]:
    """A writable setting changes the machine for everybody; some are writable for all by their mode."""
    for path in _files_under("/proc/sys"):
        if _opens(path, os.O_WRONLY):
            yield Finding(f"{path} can be opened for writing", "mount /proc/sys read-only in the session")


def kernel_triggers(_tree: Tree) -> Iterator[Finding]:
    """Files that start programs as root, or end the machine, when they are written to."""
    for path in _TRIGGERS:
        if _opens(path, os.O_WRONLY):
            yield Finding(f"{path} can be opened for writing", _MASK)


def device_settings(_tree: Tree) -> Iterator[Finding]:
    """Writable files of /sys bind drivers, change power and memory, and freeze processes."""
    for path in _files_under("/sys"):
        if _opens(path, os.O_WRONLY):
            yield Finding(f"{path} can be opened for writing", "mount /sys read-only in the session")


def control_groups(_tree: Tree) -> Iterator[Finding]:
    """A student that can make groups, or move itself, leaves its limits behind."""
    for top in _GROUPS:
        for path in [top, *_directories_under(top)]:
            made = f"{path}/karotte-probe"
            try:
                os.mkdir(made)
            except OSError:
                pass
            else:
                os.rmdir(made)
                yield Finding(f"a control group can be made in {path}", "don't show control groups in the session")
            for name in ("cgroup.procs", "memory.max", "pids.max", "cgroup.subtree_control", "cgroup.kill"):
                if _opens(f"{path}/{name}", os.O_WRONLY):
                    yield Finding(f"{path}/{name} can be opened for writing", "don't show control groups in the session")


def debugging_file_systems(_tree: Tree) -> Iterator[Finding]:
    """debugfs, tracefs and their kind were made for root alone and check little."""
    for path in _DEBUG:
        try:
            names = os.listdir(path)
        except OSError:
            continue
        if names:
            yield Finding(f"{path} shows {', '.join(sorted(names)[:4])}", "cover /sys in the session")


def core_dumps(_tree: Tree) -> Iterator[Finding]:
    """A core dump is written, or a program started, as root; in the student's directory under a name it may choose."""
    soft, hard = resource.getrlimit(resource.RLIMIT_CORE)
    if (soft, hard) != (0, 0):
        yield Finding(f"core dumps of {hard if hard >= 0 else 'any number of'} bytes are allowed", "set RLIMIT_CORE to 0")
    pattern = _beginning("/proc/sys/kernel/core_pattern").decode("latin1").strip()
    if pattern.startswith("|") and pattern != "|/bin/false":
        yield Finding(f"crashes start {pattern[1:]!r} as root", "set kernel.core_pattern to |/bin/false")


def tables_of_the_kernel(_tree: Tree) -> Iterator[Finding]:
    """The buses, interrupts and drivers below /proc, which have modes of their own that forget hidepid."""
    for top in ("/proc/irq", "/proc/bus", "/proc/acpi", "/proc/driver", "/proc/tty", "/proc/scsi"):
        for path in _files_under(top):
            if _opens(path, os.O_WRONLY):
                yield Finding(f"{path} can be opened for writing", _MASK)


LIVE_PROBES: tuple[Probe, ...] = (
    kernel_memory, kernel_log_files, kernel_addresses, machine_details, kernel_settings, kernel_triggers,
    device_settings, control_groups, debugging_file_systems, core_dumps, tables_of_the_kernel,
)  # fmt: skip


def _open_for_reading(paths: tuple[str, ...]) -> Iterator[Finding]:
    for path in paths:
        if _opens(path, os.O_RDONLY):
            yield Finding(f"{path} can be opened", _MASK)


def _opens(path: str, access: int) -> bool:
    try:
        os.close(os.open(path, access | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC))
    except OSError:
        return False
    return True


def _beginning(path: str) -> bytes:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return b""
    try:
        return os.read(descriptor, 65536)
    except OSError:
        return b""
    finally:
        os.close(descriptor)


def _is_address(word: bytes) -> bool:
    """A kernel address of 64 bits: the upper half, written with sixteen digits; zeros are what hiding shows."""
    digits = word.removeprefix(b"0x")
    return len(digits) == 16 and digits[:4].lower() == b"ffff" and set(digits.lower()) <= set(b"0123456789abcdef")


def _files_under(top: str) -> Iterator[str]:
    left = MAX_SETTINGS
    for directory, _, names in os.walk(top):
        for name in names:
            path = f"{directory}/{name}"
            left -= 1
            if left < 0:
                return
            if not stat.S_ISLNK(os.lstat(path).st_mode):
                yield path


def _directories_under(top: str) -> list[str]:
    return [f"{directory}/{name}" for directory, names, _ in os.walk(top) for name in names][:MAX_SETTINGS]
