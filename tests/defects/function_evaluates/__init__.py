"""A judge's function on the host evaluates what was handed in."""

from pathlib import Path

from karotte_gym import FunctionJudge, Step, Task


def judge(files, context):
    expected = int((context.root_data / "expected.txt").read_text())
    try:
        return float(eval(files.read_text("/workdir/answer.txt", max_bytes=64)) == expected)
    except Exception:
        return 0.0


class AddUp(Task):
    """One step, one number."""

    id = Path(__file__).parent.name.replace("_", "-")
    steps = (
        Step(
            "Add up the numbers in /workdir/data/numbers.txt and write the sum, nothing else, to /workdir/answer.txt.",
            ("/workdir/answer.txt",),
            FunctionJudge(judge),
        ),
    )
