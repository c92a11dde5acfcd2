"""What the student said in a chat: its own words alone, not the task's prompt and not a tool's result.

Both of those may hold whatever a pattern looks for: the prompt because it says what to write, a result because the
student can print anything. Only a message with the role "assistant" is the student's, and what it gave to `submit`.

For a judge that looks for one answer even those are too many: what was no call is echoed under that role too and costs
nothing, so a student could try every answer there. Such a judge reads `submitted_message`, of which there is one.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

__all__ = ["student_calls", "student_texts", "submitted_message"]


def student_texts(messages: Iterable[Mapping[str, Any]]) -> list[str]:
    """The student's words, in order: texts of its messages, and the message of each `submit`."""
    return [text for message in messages if message.get("role") == "assistant" for text in _texts(message) if text]


def submitted_message(messages: Iterable[Mapping[str, Any]]) -> str:
    """What the last `submit` said; "" when there was none. An earlier one was refused, and its words with it."""
    submits = [
        arguments
        for message in messages
        if message.get("role") == "assistant"
        for name, arguments in student_calls(message)
        if name == "submit"
    ]
    return _message_of(submits[-1]) if submits else ""


def student_calls(message: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Name and arguments (as the model wrote them) of the calls in one message."""
    calls = message.get("tool_calls")
    functions = [call.get("function") for call in calls if isinstance(call, Mapping)] if isinstance(calls, list) else []
    return [
        (str(function.get("name", "")), str(function.get("arguments", "")))
        for function in functions
        if isinstance(function, Mapping)
    ]


def _texts(message: Mapping[str, Any]) -> Iterator[str]:
    content = message.get("content")
    if isinstance(content, str):
        yield content
    elif isinstance(content, list):
        yield from (part["text"] for part in content if isinstance(part, Mapping) and isinstance(part.get("text"), str))
    yield from (_message_of(arguments) for name, arguments in student_calls(message) if name == "submit")


def _message_of(arguments: str) -> str:
    try:
        value = json.loads(arguments)
    except (ValueError, RecursionError):
        return ""  # a call that fits no schema was answered with an error and ended nothing
    said = value.get("message") if isinstance(value, dict) else None
    return said if isinstance(said, str) else ""
