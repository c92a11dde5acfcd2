"""What a clean-up did: how much was removed, and a bounded list of what could not be."""

from __future__ import annotations

import os

__all__ = ["Left"]

MAX_ITEMS = 200
MAX_ITEM_CHARS = 300  # both together stay well under the bound of a frame's header


class Left:
    """Counts and names. Names are shown with everything that is no plain text escaped."""

    def __init__(self) -> None:
        self.removed = 0
        self._items: dict[str, None] = {}  # in order, and each once: a walk may have to be begun again
        self._more = 0

    def add(self, what: str) -> None:
        """Something is left; `what` names it and says why."""
        text = os.fsencode(what).decode("utf-8", "backslashreplace")
        text = text if text.isprintable() else ascii(text)[1:-1]
        if len(text) > MAX_ITEM_CHARS:
            text = f"{text[: MAX_ITEM_CHARS // 2]}...{text[-MAX_ITEM_CHARS // 2 :]}"
        if len(self._items) < MAX_ITEMS:
            self._items[text] = None
        elif text not in self._items:
            self._more += 1

    def report(self) -> list[str]:
        """The names, and how many more there are."""
        return [*self._items, f"... and {self._more} more"] if self._more else list(self._items)
