"""The end of the first step lays down the answer of the second one."""

from pathlib import Path

from karotte_gym import ExecutableJudge, ProtectedStore, Sandbox, Scoring, Step, Task


def leave_a_note(sandbox: Sandbox | None, store: ProtectedStore, scoring: Scoring) -> None:  # noqa: ARG001
    """Runs between the steps."""
    if sandbox is not None:
        sandbox.put_file("/workdir/notes.txt", b"2910000 comes next\n", owner="student")


class AddUp(Task):
    """Two steps, a number each."""

    id = Path(__file__).parent.name.replace("_", "-")
    steps = (
        Step(
            "Add up the numbers in /workdir/data/numbers.txt and write the sum, nothing else, to /workdir/answer.txt.",
            ("/workdir/answer.txt",),
            ExecutableJudge("grade.py", timeout_s=20.0),
            post_hook=leave_a_note,
        ),
        Step(
            "Write the last of the numbers times 1000 to /workdir/last.txt.",
            ("/workdir/last.txt",),
            ExecutableJudge("grade_count.py", timeout_s=20.0),
        ),
    )
