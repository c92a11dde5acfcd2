"""`ScriptedAgent`: replays what was written down, so that honest solutions and cheats can be kept and repeated."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from karotte_gym.agents.scripted import load_script
from karotte_gym.agents.turn import Turn, calling, saying
from karotte_gym.errors import ConfigError

__all__ = ["ScriptedAgent"]


class ScriptedAgent:
    """Each item is one turn: text, one call, a list of calls (one message), or an assistant message of a transcript.

    When the items are used up the agent submits, or says nothing more with ``submit_at_end=False``, which ends as a
    silent model does. Nothing about the calls is checked: a scripted student may write nonsense as a model may.
    """

    def __init__(self, items: Sequence[Any], *, submit_at_end: bool = True, name: str = "script"):
        self._items, self._submit_at_end, self._name = list(items), submit_at_end, name
        self._next = 0

    @classmethod
    def from_file(cls, path: str | Path, *, submit_at_end: bool = True) -> ScriptedAgent:
        """From a JSON list. ConfigError in one line when the file is none."""
        return cls(load_script(path), submit_at_end=submit_at_end, name=str(path))

    def __repr__(self) -> str:
        return f"ScriptedAgent({self._name!r})"

    def reset(self, info: Mapping[str, Any]) -> None:  # noqa: ARG002
        """From the first item again."""
        self._next = 0

    def act(self, messages: list[dict[str, Any]], tools: list[dict[str, Any]]) -> Turn:  # noqa: ARG002
        """The next item as a turn."""
        index, self._next = self._next, self._next + 1
        if index >= len(self._items):
            if not self._submit_at_end:
                return saying("")
            return calling([{"name": "submit", "arguments": {}}], first_id=index * 100)
        item = self._items[index]
        if isinstance(item, str):
            return saying(item)
        if isinstance(item, Mapping) and item.get("role") == "assistant":
            calls = item.get("tool_calls") or []
            text = item.get("content") or ""
            return calling(calls, text, index * 100) if calls else saying(text)
        calls = list(item) if isinstance(item, list) else [item]
        if not all(isinstance(call, Mapping) for call in calls):
            raise ConfigError(f"item {index} of {self._name} is neither text nor a call nor a list of calls")
        return calling(calls, first_id=index * 100)
