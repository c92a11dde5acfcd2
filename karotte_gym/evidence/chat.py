"""The chat of one step of the task, made again from the transcript for judges that read it."""

from __future__ import annotations

import json
from typing import Any

from karotte_gym.messages import call_messages, malformed_messages, user_message
from karotte_gym.transcript import Transcript

__all__ = ["chat_of_step"]

SUBMITTED = "Submitted."  # what a judge sees as the answer to it


def chat_of_step(transcript: Transcript, step: int) -> tuple[dict[str, Any], ...]:
    """As `Evidence.messages` was, but for what a transcript does not hold: ids of calls, pictures, cut texts."""
    found = [user_message(text) for text in transcript.instructions[step - 1 : step]]
    for number, event in enumerate(transcript.events, start=1):
        if event.step != step:
            continue
        if event.tool:
            result = SUBMITTED if event.tool == "submit" else event.result  # the next instructions came after grading
            found += call_messages(f"call_{number}", event.tool, _arguments(event.arguments), result)
        else:
            found += malformed_messages(event.arguments, event.result)
    return tuple(found)


def _arguments(text: str) -> dict[str, Any]:
    """Arguments that were cut are no JSON any more; a judge still sees their text."""
    try:
        value = json.loads(text)
    except ValueError:
        value = None
    return value if isinstance(value, dict) else {"cut": text}
