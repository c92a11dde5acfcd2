"""How the cost of a function grows: the processor's time for eight times as much, which no load of the host changes."""

from __future__ import annotations

import time
from collections.abc import Callable

__all__ = ["TOO_MUCH", "growth"]

TIMES = 8
TOO_MUCH = 24.0  # between 8, of what is linear, and 64, of what is quadratic
REPEATED = 5


def growth(work: Callable[[int], object], size: int) -> float:
    """Cost of `work` for `TIMES * size`, as a multiple of its cost for `size`: the least of some measurements each."""
    return _cost(work, TIMES * size) / _cost(work, size)


def _cost(work: Callable[[int], object], size: int) -> float:
    costs = []
    for _ in range(REPEATED):
        began = time.thread_time()
        work(size)
        costs.append(time.thread_time() - began)
    return min(costs)
