"""How long the host let an emulator wait for a processor: a machine that was not run is late through no fault of its own.

The kernel counts it for each thread (``schedstat``: time spent ready to run, and not running). Nothing within a machine can
raise the count but by using its processor, and then only on a host that has too few of them.
"""

from __future__ import annotations

import contextlib
from pathlib import Path

__all__ = ["host_delay_s"]


def host_delay_s(pid: int) -> float:
    """Seconds that the threads of process `pid` have waited so far, of the one that waited longest; 0 where nobody counts."""
    waited_ns = [0]
    with contextlib.suppress(FileNotFoundError, ProcessLookupError, PermissionError):  # ended, or a kernel without the count
        for task in Path(f"/proc/{pid}/task").iterdir():
            waited_ns.append(int((task / "schedstat").read_text().split()[1]))
    return max(waited_ns) / 1e9
