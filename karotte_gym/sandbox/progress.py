"""How long work says where it is: one function, called with the name of a stage and how much of that stage is done."""

from __future__ import annotations

from collections.abc import Callable

__all__ = ["Progress", "silent"]

Progress = Callable[[str, float], None]  # (stage, fraction of that stage in 0..1); cheap, called from any thread


def silent(stage: str, fraction: float) -> None:
    """A progress that shows nothing."""
