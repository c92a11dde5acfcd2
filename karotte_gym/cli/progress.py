"""Named stages as bars on standard error; plain lines where that is no terminal, so that a log stays readable.

A stage is named when it begins: booting a machine without hardware virtualization takes half a minute, and silence for
so long looks like a hang.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn

from karotte_gym.sandbox.progress import Progress as Report

__all__ = ["counted", "stages"]

# What a stage's short name means to somebody who waits for it.
WORDS = {
    "boot": "booting a machine for the snapshot (once; later starts restore it)",
    "prepare": "preparing that machine and testing its limits",
    "save": "saving the snapshot",
}


@contextmanager
def stages(show: bool | None = None) -> Iterator[Report]:
    """A `Progress` to pass on. `show` None: bars on a terminal, lines elsewhere; False: silence."""
    if show is False:
        yield lambda _stage, _fraction: None
    elif show or sys.stderr.isatty():
        with _bars() as bars:
            yield _Bars(bars)
    else:
        yield _Lines()


@contextmanager
def counted(what: str, total: int) -> Iterator[Callable[[int, str], None]]:
    """A function of how many are done and what is going on: a bar that goes away, or a line for each further one done."""
    if not sys.stderr.isatty():
        yield _CountedLines(total)
        return
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        bar = progress.add_task(what, total=total)
        yield lambda done, doing: progress.update(bar, completed=done, description=doing)


class _CountedLines:
    def __init__(self, total: int) -> None:
        self._total = total
        self._said = -1

    def __call__(self, done: int, doing: str) -> None:
        if done > self._said:
            self._said = done
            print(f"{done} of {self._total} done: {doing}", file=sys.stderr, flush=True)


class _Bars:
    def __init__(self, bars: Progress):
        self._bars = bars
        self._tasks: dict[str, TaskID] = {}

    def __call__(self, stage: str, fraction: float) -> None:
        if stage not in self._tasks:
            self._tasks[stage] = self._bars.add_task(WORDS.get(stage, stage), total=1.0)
        elif fraction == 0.0:  # of the next machine or image: its time is its own
            self._bars.reset(self._tasks[stage])
        self._bars.update(self._tasks[stage], completed=fraction)


class _Lines:
    def __init__(self) -> None:
        self._started: dict[str, float] = {}  # of the stages that go on
        self._last = ""

    def __call__(self, stage: str, fraction: float) -> None:
        words, now = WORDS.get(stage, stage), time.monotonic()
        if stage not in self._started or (fraction == 0.0 and stage != self._last):  # of the next machine
            self._started[stage] = now
            print(f"{words} ...", file=sys.stderr, flush=True)
        self._last = stage
        if fraction >= 1.0:
            print(f"{words}: {now - self._started.pop(stage, now):.1f} s", file=sys.stderr, flush=True)


def _bars() -> Progress:
    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    return Progress(*columns, console=Console(stderr=True))
