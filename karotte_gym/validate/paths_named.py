"""Whether the instructions say where to put the answer: a path that isn't named is a guess the student has to make."""

from __future__ import annotations

import re
from collections.abc import Iterator

from karotte_gym.task import SUBMISSION_ROOT
from karotte_gym.validate.bench import Bench
from karotte_gym.validate.finding import Finding, fail

__all__ = ["check_paths_named", "names"]


def check_paths_named(bench: Bench) -> Iterator[Finding]:
    """Every path of a step is in that step's instructions."""
    for number, step in enumerate(bench.task_class.steps, 1):
        for path in step.submission_paths:
            if not names(step.instructions, path):
                fix = f"say in the instructions that the answer goes to {path}"
                yield fail(f"step {number} hands in {path}, but its instructions do not name it", fix)


def names(text: str, path: str) -> bool:
    """Whether the text holds the path, whole: absolute, or as it is called from /workdir, where the student starts.

    ``/workdir/out/answer.txt`` does not name ``/workdir/out/answer.tx``, and not ``answer.txt`` in ``/workdir`` either.
    """
    relative = path.removeprefix(SUBMISSION_ROOT + "/")
    return any(
        re.search(rf"(?<![\w./-]){re.escape(form)}/?(?![\w/-]|\.\w)", text) for form in (path, relative, f"./{relative}")
    )
