"""``q3-revenue``: add up a quarter. Small enough to read in a minute, with everything that a task has.

By default the ten orders of ``student_data/orders.csv``. With ``generated=True`` the orders are drawn from the
episode's seed, and the expected value exists only on the host and, while it grades, in the grader machine.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from karotte_gym.envs.q3_revenue.orders import as_csv, draw_orders, q3_revenue_cents

from karotte_gym import ExecutableJudge, Sandbox, Step, Task, TaskConfig

ORDERS = "/workdir/data/orders.csv"
ANSWER = "/workdir/data/answer.txt"


class Q3Revenue(Task):
    """One step, one number."""

    id = "q3-revenue"
    steps = (
        Step(
            instructions=(
                f"The file {ORDERS} holds orders, one a line: order_id, date, amount in euros. What was the revenue of "
                "the third quarter of 2025, that is of all orders from 2025-07-01 to 2025-09-30, both days included? "
                "Negative amounts are refunds and count.\n"
                f"Write the answer in cents, a whole number such as 12345 and nothing else, to {ANSWER}, then submit."
            ),
            submission_paths=(ANSWER,),
            judge=ExecutableJudge("grade.py", timeout_s=30.0),
        ),
    )

    class Config(TaskConfig):
        """`generated`: draw the orders from the seed."""

        generated: bool = False

    config: Config

    def __init__(self, config: Mapping[str, Any] | None = None):
        super().__init__(config)
        self._expected_cents: int | None = None

    def pre_hook(self, sandbox: Sandbox, rng: np.random.Generator) -> None:
        """Puts the drawn orders in place of the ten; the sum stays here."""
        if self.config.generated:
            orders = draw_orders(rng)
            self._expected_cents = q3_revenue_cents(orders)
            sandbox.put_file(ORDERS, as_csv(orders).encode(), mode=0o644, owner="student")

    def grading_data(self) -> Mapping[str, bytes]:
        """The expected value of a generated episode."""
        if self._expected_cents is None:
            return {}
        return {"q3_revenue.txt": f"{self._expected_cents}\n".encode()}
