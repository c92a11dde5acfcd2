"""How fast this processor's time-stamp counter runs, which an emulated x86 machine has to be told.

QEMU's emulation shows the guest the host's counter. The guest's kernel measures its speed against the emulated PIT
while it boots. On a busy host that fails; a `microvm` has no other clock to calibrate the local timer with, and the
kernel then waits for a first tick that never comes: a silent hang with one processor busy (4 of 4 boots at load 6,
where ``tsc_early_khz`` booted 6 of 6). Hardware virtualization has kvm-clock and needs none of this.
"""

from __future__ import annotations

import ctypes
import functools
import mmap
import platform
import re
import time
from pathlib import Path

__all__ = ["kernel_argument", "tsc_khz"]

MEASURE_S = 0.1  # agrees to about 0.01 % between measurements
_RDTSC = bytes.fromhex("0f31 48c1e220 4809d0 c3")  # rdtsc; shl rdx, 32; or rax, rdx; ret


def kernel_argument() -> str:
    """The word for the kernel's command line of an emulated machine, "" where none is needed.

    It differs a little from one measurement to the next: leave it out of what identifies a snapshot.
    """
    speed = tsc_khz()
    return f"tsc_early_khz={speed}" if speed else ""


@functools.cache
def tsc_khz() -> int | None:
    """Ticks per millisecond, measured once per process; None on processors without such a counter."""
    if platform.machine() != "x86_64":
        return None
    try:
        code = mmap.mmap(-1, mmap.PAGESIZE, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    except PermissionError:  # a policy against writable code; the kernel's figure is close unless the clock scales
        return _listed_khz()
    code.write(_RDTSC)
    anchor = ctypes.c_char.from_buffer(code)
    read = ctypes.CFUNCTYPE(ctypes.c_uint64)(ctypes.addressof(anchor))
    read()  # the page is mapped before it counts
    started_ns, first = time.clock_gettime_ns(time.CLOCK_MONOTONIC_RAW), read()
    time.sleep(MEASURE_S)
    ended_ns, last = time.clock_gettime_ns(time.CLOCK_MONOTONIC_RAW), read()
    del anchor
    return int((last - first) * 1_000_000 // (ended_ns - started_ns))


def _listed_khz() -> int | None:
    found = re.search(r"^cpu MHz\s*:\s*([\d.]+)$", Path("/proc/cpuinfo").read_text(encoding="utf-8"), re.MULTILINE)
    return int(float(found[1]) * 1000) if found else None
