"""Whether the instructions say where to put the answer, and speak of files that are there.

A path that isn't named is a guess the student has to make; one that leads nowhere costs it its turns. Without a hook of
the task's own the student's files are known without a machine: they are those of the folder.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator

from karotte_gym.task import SUBMISSION_ROOT, Task
from karotte_gym.validate.bench import Bench
from karotte_gym.validate.finding import Finding, fail, warn
from karotte_gym.validate.secrets_in_data import DATA_FOLDERS

__all__ = ["check_paths_named", "names"]

PATH = re.compile(r"(?<![\w./-])/workdir/[\w./-]*")
PLACE_HOLDERS = "<{[*?$%"


def check_paths_named(bench: Bench) -> Iterator[Finding]:
    """Every path of a step is in that step's instructions."""
    for number, step in enumerate(bench.task_class.steps, 1):
        for path in step.submission_paths:
            if not names(step.instructions, path):
                fix = f"say in the instructions that the answer goes to {path}"
                yield fail(f"step {number} hands in {path}, but its instructions do not name it", fix)
    yield from _leading_nowhere(bench)


def _leading_nowhere(bench: Bench) -> Iterator[Finding]:
    """Paths in the first step's instructions; what comes later may have been made meanwhile, and so may a hook's files."""
    task = bench.task_class
    if task.pre_hook is not Task.pre_hook or task.student_machine().containerfile is not None:
        return
    written = [path for step in task.steps for path in step.submission_paths]
    for path in dict.fromkeys(_paths_in(task.steps[0].instructions)):
        handed_in = any(path == each or each.startswith(path + "/") or path.startswith(each + "/") for each in written)
        if not handed_in and not _is_there(bench, path):
            yield warn(f"the instructions speak of {path}, which is not there when the student begins", "mend the path")


def _paths_in(text: str) -> Iterator[str]:
    """Whole paths below /workdir. What goes on with a place-holder or a pattern means the directory that it is in."""
    for match in PATH.finditer(text):
        path = match[0]
        if text[match.end() : match.end() + 1] in tuple(PLACE_HOLDERS):
            path = path.rpartition("/")[0]
        if (path := path.rstrip("/.-")) != SUBMISSION_ROOT and path.startswith(SUBMISSION_ROOT):
            yield path


def _is_there(bench: Bench, path: str) -> bool:
    if path in DATA_FOLDERS.values():
        return True
    for folder, place in DATA_FOLDERS.items():
        if path.startswith(place + "/"):
            return os.path.lexists(bench.folder / folder / path.removeprefix(place + "/"))
    return False


def names(text: str, path: str) -> bool:
    """Whether the text holds the path, whole: absolute, or as it is called from /workdir, where the student starts.

    ``/workdir/out/answer.txt`` does not name ``/workdir/out/answer.tx``, and not ``answer.txt`` in ``/workdir`` either.
    """
    relative = path.removeprefix(SUBMISSION_ROOT + "/")
    return any(
        re.search(rf"(?<![\w./-]){re.escape(form)}/?(?![\w/-]|\.\w)", text) for form in (path, relative, f"./{relative}")
    )
