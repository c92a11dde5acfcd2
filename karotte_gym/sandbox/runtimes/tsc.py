"""How fast this host's time-stamp counter counts, which an emulated x86 machine sees as its own and can't find out.

QEMU's `microvm` has nothing that Linux could calibrate the counter against. It then falls back to the legacy timer,
whose first interrupt is lost when the emulator is not scheduled at the right moment: on a busy host two of three boots
hung there for good. Told the frequency (``tsc_early_khz``), none of 24 did, and timers count in nanoseconds.
"""

from __future__ import annotations

import ctypes
import mmap
import statistics
import time
from collections.abc import Callable
from pathlib import Path

from karotte_gym.errors import MachineError

__all__ = ["frequency_khz"]

_RDTSC = bytes.fromhex("0f31 48c1e220 4809d0 c3")  # rdtsc; shl rdx, 32; or rax, rdx; ret
SAMPLES = 3
SAMPLE_S = 0.05  # measured: three samples agree within 0.01 percent


def frequency_khz() -> int:
    """Measured, or as the kernel gives it where no code may be made; that is right but for changing clock rates."""
    try:
        memory = mmap.mmap(-1, mmap.PAGESIZE, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    except OSError:
        return _from_cpuinfo()
    memory.write(_RDTSC)
    start = ctypes.c_char.from_buffer(memory)
    read = ctypes.CFUNCTYPE(ctypes.c_uint64)(ctypes.addressof(start))
    found = statistics.median(_sample(read) for _ in range(SAMPLES))
    del start, read
    memory.close()
    return round(found)


def _sample(read: Callable[[], int]) -> float:
    ticks, start_ns = read(), time.perf_counter_ns()
    time.sleep(SAMPLE_S)
    return (read() - ticks) * 1e6 / (time.perf_counter_ns() - start_ns)


def _from_cpuinfo() -> int:
    for line in Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines():
        if line.startswith("cpu MHz"):
            return round(float(line.partition(":")[2]) * 1000)
    raise MachineError("this host does not say how fast its processor counts (no cpu MHz in /proc/cpuinfo)")
