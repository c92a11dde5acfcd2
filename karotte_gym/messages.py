"""The episode as chat messages (OpenAI's format), so that a trainer can hand them to a model as they are."""

from __future__ import annotations

import json
from typing import Any

__all__ = ["call_messages", "malformed_messages", "opening_messages", "user_message"]

MAX_ECHO_CHARS = 4096  # of an action that was no call


def opening_messages(system_prompt: str, instructions: str) -> list[dict[str, Any]]:
    """What a model is shown first."""
    return [{"role": "system", "content": system_prompt}, user_message(instructions)]


def user_message(text: str) -> dict[str, Any]:
    """Something that the environment says to the student."""
    return {"role": "user", "content": text}


def call_messages(call_id: str, name: str, arguments: dict[str, Any], result: str) -> list[dict[str, Any]]:
    """A call and its result."""
    function = {"name": name, "arguments": json.dumps(arguments, ensure_ascii=False)}
    return [
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": call_id, "type": "function", "function": function}],
        },
        {"role": "tool", "tool_call_id": call_id, "content": result},
    ]


def malformed_messages(action: object, error: str) -> list[dict[str, Any]]:
    """What was no call goes back as plain text, since chat APIs refuse calls without a name."""
    return [{"role": "assistant", "content": echo(action)}, user_message(error)]


def echo(action: object) -> str:
    """Any object whatsoever as bounded text; its own `repr` is not trusted to work or to end."""
    if isinstance(action, str):
        return action[:MAX_ECHO_CHARS]
    try:
        return repr(action)[:MAX_ECHO_CHARS]
    except Exception as error:  # whatever a stranger's __repr__ raises, the step must answer
        return f"<{type(action).__name__} whose repr raises {type(error).__name__}>"
