"""`FunctionContext`: what a judge's function may know beside the files that were handed in."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

__all__ = ["FunctionContext"]


@dataclass(frozen=True, slots=True)
class FunctionContext:
    """This episode's own grading data, its chat (OpenAI format), a copy of its store, its seed, and the task's `root_data`.

    `root_data` is the folder on the host, None when the task has none.
    """

    grading_data: dict[str, bytes]
    messages: tuple[dict[str, Any], ...]
    store: dict[str, Any]
    seed: int | None
    root_data: Path | None = None
