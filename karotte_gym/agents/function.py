"""`FunctionAgent`: a plain function plays the student, for baselines, tests and models behind some other library."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from karotte_gym.agents.turn import Turn, calling, saying
from karotte_gym.errors import ConfigError

__all__ = ["FunctionAgent"]

Returned = Turn | str | Mapping[str, Any] | Sequence[Mapping[str, Any]]


class FunctionAgent:
    """`function(messages, tools)` returns a `Turn`, text, one call, or a list of calls."""

    def __init__(self, function: Callable[[list[dict[str, Any]], list[dict[str, Any]]], Returned]):
        self._function = function
        self._turns = 0

    def __repr__(self) -> str:
        return f"FunctionAgent({getattr(self._function, '__qualname__', type(self._function).__name__)})"

    def reset(self, info: Mapping[str, Any]) -> None:  # noqa: ARG002
        """Numbers calls from the start again."""
        self._turns = 0

    def act(self, messages: list[dict[str, Any]], tools: list[dict[str, Any]]) -> Turn:
        """What the function says, as a turn. ConfigError when it returns something else."""
        returned = self._function(messages, tools)
        self._turns += 1
        if isinstance(returned, Turn):
            return returned
        if isinstance(returned, str):
            return saying(returned)
        calls = [returned] if isinstance(returned, Mapping) else returned
        if isinstance(calls, Sequence) and all(isinstance(call, Mapping) for call in calls):
            return calling(calls, first_id=self._turns * 100) if calls else saying("")
        raise ConfigError(f"{self!r} returned {type(returned).__name__}; it may return a Turn, text, a call or calls")
