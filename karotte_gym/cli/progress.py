"""Named stages as bars on standard error; plain lines where that is no terminal, so that a log stays readable."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn

from karotte_gym.sandbox.progress import Progress as Report

__all__ = ["stages"]


@contextmanager
def stages(show: bool | None = None) -> Iterator[Report]:
    """A `Progress` to pass on. `show` None: bars on a terminal, one line per stage elsewhere; False: silence."""
    if show is False:
        yield lambda _stage, _fraction: None
    elif show or sys.stderr.isatty():
        with _bars() as bars:
            yield _Bars(bars)
    else:
        yield _Lines()


class _Bars:
    def __init__(self, bars: Progress):
        self._bars = bars
        self._tasks: dict[str, TaskID] = {}

    def __call__(self, stage: str, fraction: float) -> None:
        if stage not in self._tasks:
            self._tasks[stage] = self._bars.add_task(stage, total=1.0)
        self._bars.update(self._tasks[stage], completed=fraction)


class _Lines:
    def __init__(self) -> None:
        self._seen: dict[str, float] = {}

    def __call__(self, stage: str, fraction: float) -> None:
        started = self._seen.setdefault(stage, time.monotonic())
        if fraction >= 1.0:
            print(f"{stage}: {time.monotonic() - started:.1f} s", file=sys.stderr, flush=True)


def _bars() -> Progress:
    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    return Progress(*columns, console=Console(stderr=True))
