"""What ends an episode without a verdict because of whoever plays the student, not because of what it played.

A provider that fails is nobody's cheat and nobody's wrong answer. `ProviderError` therefore never becomes a score: the
episode has no verdict, is reported as an error, and a resumed run plays it again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from karotte_gym.errors import KarotteError

__all__ = ["ContextExceeded", "FailureKind", "ProviderError", "Stopped"]

FailureKind = Literal["rate_limit", "server", "timeout", "unreachable", "authentication", "refused"]


class ProviderError(KarotteError):
    """The provider failed for good. `kind` counts, `failures` lists every attempt; no text in it holds a key."""

    def __init__(self, kind: FailureKind, message: str, failures: Sequence[dict[str, Any]] = ()):
        super().__init__(message)
        self.kind: FailureKind = kind
        self.failures = list(failures)


class ContextExceeded(Exception):
    """The conversation no longer fits the model. Not a `KarotteError`: how long it grew is the student's doing."""


class Stopped(Exception):
    """Ctrl-C or SIGTERM: the episode is interrupted, written down, and played again when the run is resumed."""
