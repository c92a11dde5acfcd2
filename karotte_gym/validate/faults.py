"""Tells a zero that a grader gave from a zero that it earned by failing."""

from __future__ import annotations

from typing import Any

from karotte_gym.judges.executable import GRADING_FAULT

__all__ = ["fault_in"]

MAX_DEPTH = 8  # judges combined of judges keep the metadata of each inside their own


def fault_in(metadata: Any, depth: int = 0) -> str | None:
    """What went wrong, in a few words; None when the grader came to its own end."""
    if depth > MAX_DEPTH:
        return None
    if isinstance(metadata, dict):
        if kind := metadata.get(GRADING_FAULT):
            return f"{metadata.get('reason', kind)}{_last_line(metadata.get('output'))}"
        metadata = list(metadata.values())
    found = (fault_in(each, depth + 1) for each in (metadata if isinstance(metadata, list) else []))
    return next((fault for fault in found if fault), None)


def _last_line(output: Any) -> str:
    lines = str(output or "").strip().splitlines()
    return f" ({lines[-1][:200]})" if lines else ""
