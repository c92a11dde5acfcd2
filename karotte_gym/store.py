"""`ProtectedStore`: values that hooks, tools and judges of one episode pass to each other, out of the student's reach.

It lives in the harness's memory and nowhere else: no machine, transcript or record holds it. Values are copied in and
out as JSON, so that nobody changes what another has stored, and both their number and their size are bounded, because a
tool may store what a student said.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, MutableMapping
from typing import Any

__all__ = ["ProtectedStore"]

MAX_KEYS = 1000
MAX_BYTES = 4 * 1024 * 1024  # of all values together, as JSON


class ProtectedStore(MutableMapping[str, Any]):
    """A mapping from text to JSON values; ``task.store`` in hooks and tools, ``evidence.store`` in judges.

    ValueError or TypeError for a key that is no text, a value that is no JSON, and for more than fits.
    """

    def __init__(self) -> None:
        self._texts: dict[str, str] = {}

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
        text = json.dumps(value, allow_nan=False)
        size = len(text) + sum(len(other) for name, other in self._texts.items() if name != key)
        if size > MAX_BYTES:
            raise ValueError(f"the store would hold {size} bytes with {key!r:.100}; {MAX_BYTES} fit")
        if key not in self._texts and len(self._texts) >= MAX_KEYS:
            raise ValueError(f"the store holds {MAX_KEYS} values, which is the most")
        self._texts[key] = text

    def __delitem__(self, key: str) -> None:
        del self._texts[key]

    def __contains__(self, key: object) -> bool:
        return key in self._texts

    def __iter__(self) -> Iterator[str]:
        return iter(list(self._texts))

    def __len__(self) -> int:
        return len(self._texts)
