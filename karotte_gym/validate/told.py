"""Whether the task itself tells the answer: in its system prompt or in the instructions of a step.

What they say is no secret to look for any more, so all other searches would be silent about it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from karotte_gym.sandbox.contract import Submission
from karotte_gym.task import Task
from karotte_gym.validate.finding import Finding, fail, warn
from karotte_gym.validate.needles import Needle, is_secret, told_by

__all__ = ["answer_told", "strings_told"]

MAX_SHOWN = 5
MAX_ANSWER_BYTES = 64 * 1024
FIX = "take it out of the instructions; if the student is meant to have it, name it in known_to_student of the task"


def strings_told(needles: Sequence[Needle], task: type[Task]) -> Iterator[Finding]:
    """For each source of secrets: all of it told is a failure, some of it may have to be said."""
    told, known = "\n".join(told_by(task)).encode(), "\n".join(task.known_to_student).encode()
    for source in dict.fromkeys(needle.source for needle in needles):
        secret = [needle for needle in needles if needle.source == source and needle.text not in known]
        found = [needle for needle in secret if needle.text in told]
        alone = [needle for needle in found if not needle.whole]
        what = ", ".join(needle.shown for needle in alone[:MAX_SHOWN])
        if found and len(found) == len(secret):
            yield fail(f"the instructions or the system prompt tell all of {source}", FIX)
        elif alone:
            yield warn(f"the instructions or the system prompt tell {what} of {source}", FIX)


def answer_told(task: type[Task], step: int, submission: Submission) -> Iterator[Finding]:
    """Of each file that the solution hands in at that step, whether the student had read the whole of it by then."""
    told = "\n".join(told_by(task)[: step + 2])
    for file in submission.files:
        if file.is_dir or file.size > MAX_ANSWER_BYTES:
            continue
        with open(file.data_path, "rb") as stream:
            text = stream.read().decode("utf-8", "replace").strip()
        if is_secret(text) and text in told and text not in task.known_to_student:
            yield fail(f"the instructions or the system prompt tell all of the solution's {file.path}", FIX)
