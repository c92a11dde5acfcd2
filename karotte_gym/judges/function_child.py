"""The process in which a `FunctionJudge` runs its function: ``python -m karotte_gym.judges.function_child FD < job``.

It says on the descriptor, one JSON object a line, that the function is loaded, and then what came of it. What can fail
before the first line is ours; what fails after it has met the submission. Limits are set in between: they are for what
a submission can do to the function, and the function's own modules may be as large as they like.
"""

from __future__ import annotations

import base64
import json
import math
import os
import resource
import signal
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any, TextIO

from karotte_gym.errors import KarotteError
from karotte_gym.judges.function_context import FunctionContext
from karotte_gym.judges.function_reference import FunctionReference
from karotte_gym.judges.submitted_files import SubmissionUnusable, SubmittedFiles
from karotte_gym.sandbox.contract import Submission, SubmittedFile
from karotte_gym.scoring import Scoring, StudentMisbehavior

__all__ = ["main"]

GRACE_S = 5  # the parent ends this process in time; the alarm is for when there is no parent any more
MAX_REASON_CHARS = 2000  # a reason may hold all of a submission; more than the parent reads would lose the verdict
MAX_FILE_BYTES = 64 * 1024 * 1024  # of what the function writes somewhere, which nobody asks it to


def main() -> None:
    """Load, say so, run, say what came of it."""
    with os.fdopen(int(sys.argv[1]), "w") as report:
        job = json.load(sys.stdin)
        function = FunctionReference(**job["function"]).load()
        files = SubmittedFiles(Submission(files=tuple(SubmittedFile(**file) for file in job["files"])))
        arguments = (files, _context(job))[: job["arguments"]]
        _say(report, "loaded", None)
        _hush()
        _limit(job["memory_bytes"], job["timeout_s"])
        _say(report, *_outcome(function, arguments))


def _outcome(function: Callable[..., Any], arguments: tuple[Any, ...]) -> tuple[str, Any]:
    """A word and what belongs to it."""
    try:
        value = function(*arguments)
        # a Scoring is checked once more: its notes are a dict, to which more can have been added
        scoring = Scoring(value.score, value.metadata, value.stop_task) if isinstance(value, Scoring) else Scoring(value)
        return "scored", [scoring.score, scoring.metadata, scoring.stop_task]
    except (SubmissionUnusable, StudentMisbehavior) as error:
        return "unusable", str(error)[:MAX_REASON_CHARS]
    except KarotteError as error:
        return "error", f"{type(error).__name__}: {error}"[:MAX_REASON_CHARS]
    except MemoryError:
        return "memory", None
    except (Exception, SystemExit) as error:  # whatever the function raises over hostile bytes
        return "raised", _described(error)


def _described(error: BaseException) -> str:
    """What was raised, and in which line of which file."""
    last = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__} at {os.path.basename(last.filename)}:{last.lineno}: {str(error)[:500]}"[:MAX_REASON_CHARS]


def _context(job: dict[str, Any]) -> FunctionContext:
    data = {name: base64.b64decode(text) for name, text in job["grading_data"].items()}
    root_data = Path(job["root_data"]) if job["root_data"] else None
    return FunctionContext(data, tuple(job["messages"]), job["store"], job["seed"], root_data)


def _hush() -> None:
    """What the function prints may be a submission's, and a terminal obeys what is printed on it."""
    nothing = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nothing, 1)
    os.dup2(nothing, 2)


def _limit(memory_bytes: int, timeout_s: float) -> None:
    with open("/proc/self/statm") as stream:
        mapped_bytes = int(stream.read().split()[0]) * resource.getpagesize()
    seconds = math.ceil(timeout_s) + GRACE_S
    for kind, value in (
        (resource.RLIMIT_AS, mapped_bytes + memory_bytes),
        (resource.RLIMIT_CPU, seconds),
        (resource.RLIMIT_FSIZE, MAX_FILE_BYTES),
        (resource.RLIMIT_CORE, 0),
    ):
        _, most = resource.getrlimit(kind)
        value = value if most == resource.RLIM_INFINITY else min(value, most)
        resource.setrlimit(kind, (value, value))
    signal.alarm(seconds)


def _say(report: TextIO, word: str, value: Any) -> None:
    report.write(json.dumps([word, value]) + "\n")
    report.flush()


if __name__ == "__main__":
    main()
