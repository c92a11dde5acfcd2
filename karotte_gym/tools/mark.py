"""`tool`: says how an author's own tool is run, where the default will not do."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, TypeVar, overload

from karotte_gym.config import Limits
from karotte_gym.errors import ConfigError

__all__ = ["Marks", "marks_of", "time_limit_s", "tool"]

_ATTRIBUTE = "__karotte_tool__"
_PLACES = ("host", "machine")
_Made = TypeVar("_Made", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class Marks:
    """How to run a tool. `timeout_s` None: the task's own `Limits.command_timeout_s`."""

    run_in: Literal["host", "machine"] = "host"
    timeout_s: float | None = None


@overload
def tool(function: _Made, /) -> _Made: ...
@overload
def tool(*, run_in: Literal["host", "machine"] = "host", timeout_s: float | None = None) -> Callable[[_Made], _Made]: ...
def tool(
    function: Callable[..., Any] | None = None,
    /,
    *,
    run_in: Literal["host", "machine"] = "host",
    timeout_s: float | None = None,
) -> Any:
    """Mark the function or class of ``tools/NAME.py``. Without it a tool runs on the host within the task's time limit.

    ``run_in="machine"`` runs the file in the student's machine, as the student.
    """
    if run_in not in _PLACES:
        raise ConfigError(f"@tool: run_in must be one of {_PLACES}, not {run_in!r}")
    if timeout_s is not None and (isinstance(timeout_s, bool) or not math.isfinite(timeout_s) or timeout_s <= 0):
        raise ConfigError(f"@tool: timeout_s must be a number of seconds above 0, not {timeout_s!r}")

    def mark(made: _Made) -> _Made:
        setattr(made, _ATTRIBUTE, Marks(run_in, timeout_s))
        return made

    return mark if function is None else mark(function)


def time_limit_s(marks: Marks, limits: Limits) -> float:
    """Of one call; no tool may take longer than the task's longest command."""
    return min(marks.timeout_s or limits.command_timeout_s, limits.max_command_timeout_s)


def marks_of(made: object) -> Marks | None:
    """What a decorator said; None without one."""
    return getattr(made, _ATTRIBUTE, None)
