"""Numbers from a chance that no seed governs."""

import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from karotte_gym import ExecutableJudge, Sandbox, Step, Task


class AddUp(Task):
    """One step, one number."""

    id = Path(__file__).parent.name.replace("_", "-")
    steps = (
        Step(
            "Add up the numbers in /workdir/data/drawn.txt and write the sum, nothing else, to /workdir/answer.txt.",
            ("/workdir/answer.txt",),
            ExecutableJudge("grade.py", timeout_s=20.0),
        ),
    )

    def __init__(self, config: Mapping[str, Any] | None = None):
        super().__init__(config)
        self._sum = 0

    def pre_hook(self, sandbox: Sandbox, rng: np.random.Generator) -> None:  # noqa: ARG002
        """Draws the numbers."""
        numbers = [random.randrange(1, 10_000) for _ in range(400)]
        self._sum = sum(numbers)
        text = "".join(f"{number}\n" for number in numbers)
        sandbox.put_file("/workdir/data/drawn.txt", text.encode(), owner="student")

    def grading_data(self) -> Mapping[str, bytes]:
        """The sum of this episode."""
        return {"expected.txt": f"{self._sum}\n".encode()}
