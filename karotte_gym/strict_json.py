"""JSON of somebody else's that has one meaning only: each key once, and no NaN or infinity, which JSON does not have."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, NoReturn

__all__ = ["strict_json"]


def strict_json(text: str | bytes, *, parse_int: Callable[[str], int] | None = None) -> Any:
    """The value. ValueError with a sentence for anything that readers could differ on; RecursionError as json.loads does."""
    return json.loads(text, object_pairs_hook=_unique, parse_constant=_refuse, parse_int=parse_int)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a key comes twice")  # readers differ in which of the two they believe
    return found


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no JSON")
