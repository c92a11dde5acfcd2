"""`Check`: one question about a task: what it costs to ask, the function that answers it, and what a good answer says."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Literal

from karotte_gym.validate.bench import Bench
from karotte_gym.validate.finding import Finding

__all__ = ["Check", "Cost"]

Cost = Literal["read", "few", "many"]  # reads files only; starts a machine or two; starts dozens


@dataclass(frozen=True, slots=True)
class Check:
    """`run` returns what it found; nothing found is `sound`. It may raise: the run turns that into a finding."""

    id: str
    cost: Cost
    run: Callable[[Bench], Iterable[Finding]]
    sound: str
