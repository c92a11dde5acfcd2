"""What the environment answered, as messages that follow a given call, and the facts about it for the transcript."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = ["replies", "tool_facts"]

_FACTS = ("exit_code", "timed_out", "truncated", "duration_s")


def replies(obs: Mapping[str, Any], info: Mapping[str, Any], identity: str | None) -> list[dict[str, Any]]:
    """The answer to the call `identity` first, then whatever else was said (a next step's instructions).

    The environment echoes the call too, with an id of its own; the conversation has the model's own message already.
    Without an id (the step was ended by text) everything comes from the user, since no call waits for a result.
    """
    said = [dict(message) for message in info.get("messages") or () if message.get("role") != "assistant"]
    said = said or [{"role": "user", "content": obs["content"]}]
    if identity is None:
        return [{"role": "user", "content": message["content"]} for message in said]
    first, *others = said
    return [{"role": "tool", "tool_call_id": identity, "content": first["content"]}, *others]


def tool_facts(action: Mapping[str, Any], info: Mapping[str, Any]) -> dict[str, Any]:
    """Name, id and what the environment measured."""
    function = action.get("function") or action
    facts = info.get("tool") or {}
    measured = {name: _plain(facts[name]) for name in _FACTS if name in facts}
    return {"id": action.get("id"), "name": str(function.get("name") or ""), **measured}


def _plain(value: Any) -> Any:
    """Vector environments want numpy's numbers in infos; JSON does not."""
    item = getattr(value, "item", None)
    return item() if callable(item) else value
