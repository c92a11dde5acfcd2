"""What a step of the task has left of its limits: time, turns, context.

Time runs from the moment the student has its instructions, whoever takes it: a student that thinks for an hour before
its next call finds the step over. A call of nonsense is a turn as well, or a student could go on for ever in nonsense.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

from karotte_gym.config import Limits, StepLimits

__all__ = ["StepBudget"]

BYTES_A_TOKEN = 4  # English and code in today's tokenizers; the environment knows no model, so it can't count its tokens
PICTURE_TOKENS = 1600  # what large providers count at most for a picture, whatever its bytes
MIN_TIMEOUT_S = 0.1


class StepBudget:
    """Counts for one step; `clock` is a monotonic clock in seconds."""

    def __init__(self, limits: StepLimits, clock: Callable[[], float] = time.monotonic):
        self._limits = limits
        self._clock = clock
        self._began = clock()
        self._turns = 0
        self._bytes = 0

    def take_turn(self) -> None:
        """A call begins."""
        self._turns += 1

    def add(self, messages: list[dict[str, Any]]) -> None:
        """These belong to the step's chat."""
        if self._limits.context_tokens is not None:
            self._bytes += sum(_size(message) for message in messages)

    @property
    def time_is_up(self) -> bool:
        """Whether nothing may begin any more."""
        return self._limits.time_s is not None and self._left_s() <= 0

    @property
    def spent(self) -> str | None:
        """The limit that is reached, in words; None when the step may go on."""
        limits = self._limits
        if self.time_is_up:
            return f"time ({limits.time_s:g} s)"
        if limits.turns is not None and self._turns >= limits.turns:
            return f"turns ({limits.turns})"
        if limits.context_tokens is not None and self._bytes >= limits.context_tokens * BYTES_A_TOKEN:
            return f"context (about {limits.context_tokens} tokens)"
        return None

    def cut(self, limits: Limits) -> Limits:
        """`limits` with no command longer than what is left of the step's time."""
        if self._limits.time_s is None:
            return limits
        left_s = max(self._left_s(), MIN_TIMEOUT_S)
        cut = {name: min(getattr(limits, name), left_s) for name in ("command_timeout_s", "max_command_timeout_s")}
        return limits.model_copy(update=cut)

    def note(self) -> str:
        """What is left, as a line for the student, "" when the task tells nothing."""
        parts = []
        if self._limits.show_remaining_turns and self._limits.turns is not None:
            left = max(self._limits.turns - self._turns, 0)
            parts.append(f"{left} {'turn' if left == 1 else 'turns'}")
        if self._limits.show_remaining_time:
            parts.append(f"{max(self._left_s(), 0):.0f} s")
        return f"[{' and '.join(parts)} left for this step]" if parts else ""

    def _left_s(self) -> float:
        assert self._limits.time_s is not None
        return self._limits.time_s - (self._clock() - self._began)


def _size(message: dict[str, Any]) -> int:
    content = message.get("content")
    parts = content if isinstance(content, list) else []
    pictures = [part for part in parts if part.get("type") == "image_url"]
    if pictures:
        message = {**message, "content": [part for part in parts if part.get("type") != "image_url"]}
    text = json.dumps(message, ensure_ascii=False).encode("utf-8", "replace")
    return len(text) + len(pictures) * PICTURE_TOKENS * BYTES_A_TOKEN
