"""Orders drawn from a seed, with the days on which a careless filter errs, and their sum on the host."""

from __future__ import annotations

import datetime
from dataclasses import dataclass

import numpy as np

__all__ = ["Order", "as_csv", "draw_orders", "q3_revenue_cents"]

FIRST, LAST = datetime.date(2025, 7, 1), datetime.date(2025, 9, 30)
RANGE = (datetime.date(2024, 6, 1), datetime.date(2026, 6, 30))  # the same months of other years are traps, too
EDGES = ("2024-09-30", "2025-06-30", "2025-07-01", "2025-07-31", "2025-09-30", "2025-10-01")
FEWEST, MOST = 300, 700
REFUND_SHARE = 0.08


@dataclass(frozen=True, slots=True)
class Order:
    """One line; `cents` is negative for a refund."""

    date: datetime.date
    cents: int


def draw_orders(rng: np.random.Generator) -> list[Order]:
    """Some hundred orders in random order, each edge of the quarter at least twice."""
    count = int(rng.integers(FEWEST, MOST))
    span = (RANGE[1] - RANGE[0]).days
    days = [RANGE[0] + datetime.timedelta(days=int(day)) for day in rng.integers(0, span + 1, count)]
    days += [datetime.date.fromisoformat(day) for day in EDGES for _ in range(2)]
    orders = [Order(day, _draw_cents(rng)) for day in days]
    return [orders[i] for i in rng.permutation(len(orders))]


def q3_revenue_cents(orders: list[Order]) -> int:
    """What the grader expects."""
    return sum(order.cents for order in orders if FIRST <= order.date <= LAST)


def as_csv(orders: list[Order]) -> str:
    """As in student_data/orders.csv; amounts in euros with two decimals."""
    lines = [f"{number},{order.date},{_euros(order.cents)}" for number, order in enumerate(orders, start=1)]
    return "\n".join(["order_id,date,amount", *lines]) + "\n"


def _draw_cents(rng: np.random.Generator) -> int:
    cents = int(rng.integers(99, 50_000))
    return -cents if rng.random() < REFUND_SHARE else cents


def _euros(cents: int) -> str:
    return f"{'-' if cents < 0 else ''}{abs(cents) // 100}.{abs(cents) % 100:02d}"
