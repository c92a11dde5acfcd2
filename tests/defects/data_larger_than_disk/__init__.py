"""The sound environment that every defective one is made from: a folder beside this one holds what differs."""

from pathlib import Path

from karotte_gym import ExecutableJudge, Hardware, Step, Task


class AddUp(Task):
    """One step, one number."""

    id = Path(__file__).parent.name.replace("_", "-")
    hardware = Hardware(disk_mib=64, disk_inodes=65536)
    steps = (
        Step(
            "Add up the numbers in /workdir/data/numbers.txt and write the sum, nothing else, to /workdir/answer.txt.",
            ("/workdir/answer.txt",),
            ExecutableJudge("grade.py", timeout_s=20.0),
        ),
    )
