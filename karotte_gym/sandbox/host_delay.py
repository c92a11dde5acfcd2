"""How long the host ran an emulator, and let it wait for a processor: one that was not run is late through no fault of its own.

The kernel counts both for each thread (``schedstat``: time spent running, and ready to run and not running). Nothing within a
machine can raise the second count but by using its processor, and then only on a host that has too few of them.
"""

from __future__ import annotations

import contextlib
from pathlib import Path

__all__ = ["host_delay_s", "running_time_s"]

_RAN, _WAITED = 0, 1  # fields of schedstat


def host_delay_s(pid: int) -> float:
    """Seconds that the threads of process `pid` have waited so far, of the one that waited longest; 0 where nobody counts."""
    return _longest_s(pid, _WAITED)


def running_time_s(pid: int) -> float:
    """Seconds that the threads of process `pid` have run so far, of the one that ran longest; 0 where nobody counts."""
    return _longest_s(pid, _RAN)


def _longest_s(pid: int, field: int) -> float:
    counts_ns = [0]
    with contextlib.suppress(FileNotFoundError, ProcessLookupError, PermissionError):  # ended, or a kernel without the count
        for task in Path(f"/proc/{pid}/task").iterdir():
            counts_ns.append(int((task / "schedstat").read_text().split()[field]))
    return max(counts_ns) / 1e9
