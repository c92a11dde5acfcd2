"""`ProtectedStore`: values that hooks, tools and judges of one episode pass to each other, out of the student's reach.

It lives in the harness's memory and nowhere else: no machine, transcript or record holds it. Values are copied in and
out as JSON, so that nobody changes what another has stored, and both their number and their size are bounded, because a
tool may store what a student said. What tools write has bounds of its own: a student that fills them up by a tool takes
no room from hooks and judges, which would fail for want of it.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, MutableMapping
from typing import Any

__all__ = ["ProtectedStore"]

MAX_KEYS = 1000  # once for tools and once for all others
MAX_BYTES = 4 * 1024 * 1024  # of keys and values together, as JSON; once for tools and once for all others


class ProtectedStore(MutableMapping[str, Any]):
    """A mapping from text to JSON values; ``task.store`` in hooks and tools, ``evidence.store`` in judges.

    ValueError or TypeError for a key that is no text, a value that is no JSON, and for more than fits.
    """

    def __init__(self) -> None:
        self._texts: dict[str, str] = {}
        self._of_tools: set[str] = set()  # the keys that a tool wrote last
        self._is_for_tools = False
        self._lock = threading.Lock()  # a tool that was given up may go on in its thread

    def for_tools(self) -> ProtectedStore:
        """The same values, for a tool: what it writes counts against the tools' room."""
        view = ProtectedStore()
        view._texts, view._of_tools, view._lock = self._texts, self._of_tools, self._lock
        view._is_for_tools = True
        return view

    def get(self, key: str, default: Any = None) -> Any:
        """The value, or `default`."""
        text = self._texts.get(key)
        return default if text is None else json.loads(text)

    def set(self, key: str, value: Any) -> None:
        """The same as ``store[key] = value``."""
        self[key] = value

    def __getitem__(self, key: str) -> Any:
        return json.loads(self._texts[key])

    def __setitem__(self, key: str, value: Any) -> None:
        if not isinstance(key, str):
            raise TypeError(f"a key of the store is text, not {key!r:.100}")
        key.encode()  # UnicodeEncodeError, a ValueError: half a character goes into no digest
        text = json.dumps(value, allow_nan=False)
        with self._lock:
            self._refuse_overflow(key, text)
            self._texts[key] = text
            (self._of_tools.add if self._is_for_tools else self._of_tools.discard)(key)

    def _refuse_overflow(self, key: str, text: str) -> None:
        """Only what has the same writer counts."""
        mine = [name for name in self._texts if name != key and (name in self._of_tools) is self._is_for_tools]
        whose = " of tools" if self._is_for_tools else ""
        size = len(key) + len(text) + sum(len(name) + len(self._texts[name]) for name in mine)
        if size > MAX_BYTES:
            raise ValueError(f"the store would hold {size} bytes{whose} with {key!r:.100}; {MAX_BYTES} fit")
        if len(mine) >= MAX_KEYS:
            raise ValueError(f"the store holds {MAX_KEYS} values{whose}, which is the most")

    def __delitem__(self, key: str) -> None:
        with self._lock:
            del self._texts[key]
            self._of_tools.discard(key)

    def __contains__(self, key: object) -> bool:
        return key in self._texts

    def __iter__(self) -> Iterator[str]:
        return iter(list(self._texts))

    def __len__(self) -> int:
        return len(self._texts)
