"""A list of two numbers."""

from pathlib import Path

from karotte_gym import ExecutableJudge, Step, Task


class AddUp(Task):
    """One step, one number."""

    id = Path(__file__).parent.name.replace("_", "-")
    steps = (
        Step(
            "Add up the numbers in /workdir/data/numbers.txt and write a JSON list of the sum and how many they are, nothing "
            "else, to /workdir/answer.txt.",
            ("/workdir/answer.txt",),
            ExecutableJudge("grade.py", timeout_s=20.0),
        ),
    )
