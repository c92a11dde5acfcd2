"""The sound environment that every defective one is made from: a folder beside this one holds what differs."""

from pathlib import Path

from karotte_gym import ExecutableJudge, Step, Task


class AddUp(Task):
    """One step, one number."""

    id = Path(__file__).parent.name.replace("_", "-")
    steps = (
        Step(
            "Add up the numbers in /workdir/data/numbers.txt and write the sum, nothing else, to the answer file.",
            ("/workdir/answer.txt",),
            ExecutableJudge("grade.py", timeout_s=20.0),
        ),
    )
