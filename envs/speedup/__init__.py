"""``speedup``: make a correct and slow function fast. Scored by how much faster it is on inputs that nobody saw.

The criterion is time, and time is what a student would rather forge than save. So a submission is source text that a
driver loads only after the clock has started, in a process that is new for every measurement and gone after it: there
is no earlier moment at which anything could be prepared, and no later one to which anything could be carried.
"""

from __future__ import annotations

from karotte_gym import ExecutableJudge, Step, Task

SLOW = "/workdir/data/slow.py"
SAMPLES = "/workdir/data/samples.json"
FAST = "/workdir/data/fast.py"


class Speedup(Task):
    """One step, one function."""

    id = "speedup"
    score_tolerance = 0.1  # its score is a measurement: gradings of one submission differ by some per cent
    accepted_forms = ("twice", "byte-order-mark")  # a program that defines its function twice is the same program
    steps = (
        Step(
            instructions=(
                f"The function neighbours(values, distance) in {SLOW} is correct and slow. Write one that returns the same "
                f"lists and is faster to {FAST}, then submit. {SAMPLES} has a few calls with their results.\n"
                "values is a list of whole numbers of any size and order, distance a whole number from 0. Plain Python with "
                "its standard library; the file is all that is handed in, and the function's name stays. Where it is called it "
                "has one processor, 96 MiB of memory, and neither sockets nor timers nor shared semaphores, so no asyncio and "
                "no multiprocessing.\n"
                "It is called with hidden values. A single wrong result scores 0. Then it is timed against the slow one, "
                "on lists of some hundred numbers, by turns, each time in a new process that loads your file when the clock "
                "runs. Less than 1.25 times as fast scores 0, from there the score rises to 1 at 8 times."
            ),
            submission_paths=(FAST,),
            judge=ExecutableJudge("grade.py", timeout_s=180.0),
        ),
    )
