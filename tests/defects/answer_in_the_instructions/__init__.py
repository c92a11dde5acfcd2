"""An example in the instructions that is the answer."""

from pathlib import Path

from karotte_gym import ExecutableJudge, Step, Task


class AddUp(Task):
    """One step, one number."""

    id = Path(__file__).parent.name.replace("_", "-")
    steps = (
        Step(
            "Add up the numbers in /workdir/data/numbers.txt and write the sum, such as 605613, to /workdir/answer.txt.",
            ("/workdir/answer.txt",),
            ExecutableJudge("grade.py", timeout_s=20.0),
        ),
    )
