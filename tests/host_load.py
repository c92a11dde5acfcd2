"""What the host of the tests was too busy for: a promise of seconds is held to the seconds in which it could be kept."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from karotte_gym.sandbox.contract import CommandResult
from karotte_gym.sandbox.host_delay import host_delay_s

__all__ = ["Timed", "host_waited_s", "timed_bash", "within"]

STARVED_S = 0.2  # what there is to end a command's processes is a second


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


class Timed(NamedTuple):
    """A command's answer, and how long it took in the time that the host gave the machine."""

    answer: CommandResult
    seconds: float
    starved: bool  # the host let the machine wait: what must be done within a second may fail, and costs the shell then


def timed_bash(machine: Any, command: str, timeout_s: float) -> Timed:
    """One call of a real machine's shell."""
    began, waited_s = time.monotonic(), host_delay_s(machine.pid)
    answer = machine.bash(command, timeout_s=timeout_s)
    waited_s = host_delay_s(machine.pid) - waited_s
    return Timed(answer, time.monotonic() - began - waited_s, waited_s >= STARVED_S)
