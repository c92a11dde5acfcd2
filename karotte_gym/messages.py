"""The episode as chat messages (OpenAI's format), so that a trainer can hand them to a model as they are."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from karotte_gym.tools.pictures import ImagePart

__all__ = ["call_messages", "image_messages", "malformed_messages", "opening_messages", "user_message"]

PICTURE = "The picture that the tool read:"  # fixed: what the student chose has no place in words of the user's
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


def image_messages(images: Iterable[ImagePart]) -> list[dict[str, Any]]:
    """Pictures after a tool's result, from the user: not every chat API takes a picture within a result."""
    return [
        {
            "role": "user",
            "content": [{"type": "text", "text": PICTURE}, {"type": "image_url", "image_url": {"url": image.url}}],
        }
        for image in images
    ]


def malformed_messages(action: object, error: str) -> list[dict[str, Any]]:
    """What was no call goes back as plain text, since chat APIs refuse calls without a name."""
    return [{"role": "assistant", "content": echo(action)}, user_message(error)]


def echo(action: object) -> str:
    """Any object whatsoever as bounded text; its own `repr` is not trusted to work or to end."""
    if isinstance(action, str):
        return str.__getitem__(action, slice(MAX_ECHO_CHARS))
    try:
        return repr(action)[:MAX_ECHO_CHARS]
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # whatever a stranger's __repr__ raises, SystemExit too, the step must answer
        return f"<{type(action).__name__} whose repr raises {type(error).__name__}>"
