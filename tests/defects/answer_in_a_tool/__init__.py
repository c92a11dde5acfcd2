"""A tool that runs in the machine and compares with the answer."""

from pathlib import Path

from karotte_gym import ExecutableJudge, Step, Task


class AddUp(Task):
    """One step, one number."""

    id = Path(__file__).parent.name.replace("_", "-")
    tools = ("bash", "check_sum")
    steps = (
        Step(
            "Add up the numbers in /workdir/data/numbers.txt and write the sum, nothing else, to /workdir/answer.txt.",
            ("/workdir/answer.txt",),
            ExecutableJudge("grade.py", timeout_s=20.0),
        ),
    )
