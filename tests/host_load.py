"""What the host of the tests was too busy for: a promise of seconds is held to the seconds in which it could be kept."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

__all__ = ["host_waited_s", "within"]


def host_waited_s() -> float:
    """Seconds so far in which something on this host had to wait for a processor; 0 where the kernel doesn't count them."""
    try:
        return int(Path("/proc/pressure/cpu").read_text().split()[4].removeprefix("total=")) / 1e6
    except OSError:
        return 0.0


def within(timeout_s: float, holds: Callable[[], object], *, max_waited_s: float = 60.0) -> bool:
    """Whether something comes to hold in `timeout_s`, and in what the host let wait meanwhile, up to `max_waited_s`."""
    began, waited_s = time.monotonic(), host_waited_s()
    while not holds():
        if time.monotonic() - began > timeout_s + min(max_waited_s, host_waited_s() - waited_s):
            return False
        time.sleep(0.02)
    return True
