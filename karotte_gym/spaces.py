"""Spaces for text of any alphabet and for tool calls; Gymnasium's own `Text` knows only a fixed set of characters.

Both can be compared, pickled and seeded, and batch into tuples, so that vector environments work with them
(`AsyncVectorEnv` with ``shared_memory=False``: shared memory needs a fixed alphabet).
"""

from __future__ import annotations

import string
from collections.abc import Sequence
from typing import Any

import numpy as np
from gymnasium import spaces

__all__ = ["MAX_OBSERVATION_CHARS", "TextSpace", "ToolCallSpace"]

MAX_OBSERVATION_CHARS = 256 * 1024  # output is bounded in bytes by Limits; this bounds what a view of it becomes
_SAMPLE_CHARACTERS = string.ascii_letters + string.digits + " -_./é☃"
_SAMPLE_CHARS = 64  # samples are for checkers, which need no long ones


class TextSpace(spaces.Text):
    """Any Unicode text of `min_length` to `max_length` characters."""

    def __init__(self, max_length: int, *, min_length: int = 0, seed: int | np.random.Generator | None = None):
        super().__init__(max_length, min_length=min_length, charset=_SAMPLE_CHARACTERS, seed=seed)

    def contains(self, x: Any) -> bool:
        """Whether `x` is text of fitting length; the alphabet is free."""
        return isinstance(x, str) and self.min_length <= len(x) <= self.max_length

    def sample(self, mask: Any = None, probability: Any = None) -> str:
        """A short text; masks have no meaning here and are refused."""
        _no_masks(mask, probability)
        longest = max(self.min_length, min(self.max_length, _SAMPLE_CHARS))
        length = int(self.np_random.integers(self.min_length, longest + 1))
        picks = self.np_random.integers(0, len(_SAMPLE_CHARACTERS), length)
        return "".join(_SAMPLE_CHARACTERS[i] for i in picks)

    def __eq__(self, other: object) -> bool:
        """Equal bounds."""
        if not isinstance(other, TextSpace):
            return NotImplemented
        return (self.min_length, self.max_length) == (other.min_length, other.max_length)

    def __hash__(self) -> int:
        return hash((self.min_length, self.max_length))

    def __repr__(self) -> str:
        return f"TextSpace({self.max_length}, min_length={self.min_length})"


class ToolCallSpace(spaces.Space[dict[str, Any]]):
    """Tool calls: ``{"name", "arguments"}`` or OpenAI's ``{"id", "type", "function": {"name", "arguments"}}``.

    Membership is about the form alone. `KarotteEnv.step` takes any object whatsoever and answers a wrong one with an
    error text, since what a model writes is no contract.
    """

    def __init__(self, tools: Sequence[str], seed: int | np.random.Generator | None = None):
        super().__init__(shape=None, dtype=None, seed=seed)
        self.tools = tuple(tools)

    @property
    def is_np_flattenable(self) -> bool:
        """A call is no array."""
        return False

    def contains(self, x: Any) -> bool:
        """Whether `x` has the form of a call of one of the tools."""
        if isinstance(x, dict) and isinstance(x.get("function"), dict):
            x = x["function"]
        return isinstance(x, dict) and x.get("name") in self.tools and isinstance(x.get("arguments"), dict | str)

    def sample(self, mask: Any = None, probability: Any = None) -> dict[str, Any]:
        """A harmless shell command, or the last of the tools with no arguments where there is no shell."""
        _no_masks(mask, probability)
        if "bash" not in self.tools:
            return {"name": self.tools[-1], "arguments": {}}
        return {"name": "bash", "arguments": {"command": f"echo {int(self.np_random.integers(1_000_000))}"}}

    def __eq__(self, other: object) -> bool:
        """Same tools."""
        if not isinstance(other, ToolCallSpace):
            return NotImplemented
        return self.tools == other.tools

    def __hash__(self) -> int:
        return hash(self.tools)

    def __repr__(self) -> str:
        return f"ToolCallSpace({list(self.tools)})"


def _no_masks(mask: Any, probability: Any) -> None:
    if mask is not None or probability is not None:
        raise ValueError("sampling with a mask or probabilities has no meaning for text")
