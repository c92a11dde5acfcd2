"""Looks for something like a sum in what is said."""

from pathlib import Path

from karotte_gym import RegexJudge, Step, Task


class AddUp(Task):
    """One step, one number."""

    id = Path(__file__).parent.name.replace("_", "-")
    steps = (
        Step(
            "Add up the numbers in /workdir/data/numbers.txt and say the sum, nothing else, with submit.",
            (),
            RegexJudge(r"\b\d{6}\b"),
        ),
    )
