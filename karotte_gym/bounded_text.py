"""A text of somebody else's, cut to what there is room for."""

from __future__ import annotations

__all__ = ["bounded"]


def bounded(text: str, limit: int) -> str:
    """`text`, or its head and tail with the number of characters left out, `limit` characters at most."""
    if len(text) <= limit:
        return text
    mark = f"\n[... {len(text) - limit} characters left out ...]\n"
    room = max(limit - len(mark), 0)
    return (text[: room - room // 2] + mark + text[len(text) - room // 2 :])[:limit]
