"""The items that the service sells: drawn from a generator, with prices on which careless rounding errs."""

from __future__ import annotations

import json

import numpy as np

__all__ = ["as_json", "draw_items"]

CATEGORIES = ("bolts", "nuts", "tools", "paint")
FEWEST, MOST = 40, 60


def draw_items(rng: np.random.Generator) -> list[dict[str, object]]:
    """Some fifty items in random order. Odd prices make half cents at every tenth; stocks are small to run out."""
    count = int(rng.integers(FEWEST, MOST))
    numbers = rng.choice(9000, size=count, replace=False) + 1000
    return [
        {
            "id": f"{CATEGORIES[int(rng.integers(len(CATEGORIES)))][0]}{number}",
            "category": CATEGORIES[index % len(CATEGORIES)],
            "price_cents": int(rng.integers(50, 4000)) * 2 + 1,
            "stock": int(rng.integers(12, 400)),
        }
        for index, number in enumerate(numbers)
    ]


def as_json(items: list[dict[str, object]]) -> str:
    """One item a line."""
    return "[\n" + ",\n".join(json.dumps(item) for item in items) + "\n]\n"
