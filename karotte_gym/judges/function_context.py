"""`FunctionContext`: what a judge's function may know beside the files that were handed in."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

__all__ = ["FunctionContext"]


@dataclass(frozen=True, slots=True)
class FunctionContext:
    """This episode's own grading data, its chat (OpenAI format), a copy of its store, and its seed."""

    grading_data: dict[str, bytes]
    messages: tuple[dict[str, Any], ...]
    store: dict[str, Any]
    seed: int | None
