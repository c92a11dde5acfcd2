"""The process in which a `FunctionJudge` runs its function: ``python -m karotte_gym.judges.function_child FD < job``.

It says on the descriptor, one JSON object a line, that the function is loaded, and then what came of it. What can fail
before the first line is ours; what fails after it has met the submission. Limits are set in between: they are for what
a submission can do to the function, and the function's own modules may be as large as they like.
"""

from __future__ import annotations

import base64
import itertools
import json
import math
import os
import reprlib
import resource
import signal
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any, TextIO

from pydantic import ValidationError

from karotte_gym.errors import KarotteError
from karotte_gym.judges.function_context import FunctionContext
from karotte_gym.judges.function_reference import FunctionReference
from karotte_gym.judges.submitted_files import SubmissionUnusable, SubmittedFiles
from karotte_gym.sandbox.contract import Submission, SubmittedFile
from karotte_gym.scoring import Scoring, StudentMisbehavior

__all__ = ["main"]

GRACE_S = 5  # the parent ends this process in time; the alarm is for when there is no parent any more
MAX_REASON_CHARS = 2000  # a reason may hold all of a submission; more than the parent reads would lose the verdict
SCORING_FILE = sys.modules[Scoring.__module__].__file__
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
        scoring = _scoring(function(*arguments))
        return "scored", [scoring.score, scoring.metadata, scoring.stop_task]
    except _NoScoring as error:
        return "wrong_result", str(error)[:MAX_REASON_CHARS]
    except (SubmissionUnusable, StudentMisbehavior) as error:
        return "unusable", str(error)[:MAX_REASON_CHARS]
    except KarotteError as error:
        return "error", f"{type(error).__name__}: {error}"[:MAX_REASON_CHARS]
    except MemoryError:
        return "memory", None
    except (Exception, SystemExit) as error:  # whatever the function raises over hostile bytes
        return "raised", _described(error)


class _NoScoring(Exception):
    """What was returned is no score; the text says what it was and what may be returned."""


def _scoring(value: object) -> Scoring:
    """A Scoring is checked once more: its notes are a dict, to which more can have been added."""
    try:
        return Scoring(value.score, value.metadata, value.stop_task) if isinstance(value, Scoring) else Scoring(value)  # type: ignore[arg-type]
    except ValidationError as error:
        if isinstance(value, Scoring):
            raise _NoScoring(f"returned a Scoring that can't be kept: {_first_mistake(error)}") from error
        raise _NoScoring(f"returned {_shown(value)}; allowed is a number from 0 to 1, or a Scoring with one") from error


def _first_mistake(error: ValidationError) -> str:
    """In the words of `Scoring`, without pydantic's own."""
    first = error.errors(include_url=False)[0]
    where, sentence = ".".join(map(str, first["loc"])), first["msg"].removeprefix("Value error, ")
    return f"{where} {_shown(first['input'])}: {sentence}"


def _shown(value: object) -> str:
    """Short, whatever it is: what a function returns may hold all of a submission."""
    try:
        return reprlib.repr(value)
    except ValueError:  # an integer of thousands of digits is not written out
        return f"something of type {type(value).__name__} that is too long to show"


def _described(error: BaseException) -> str:
    """What was raised, and in which line of which file; a Scoring made wrong, in the line that made it."""
    frames, sentence = list(traceback.extract_tb(error.__traceback__)), str(error)
    if isinstance(error, ValidationError) and error.title == Scoring.__name__:
        frames = list(itertools.takewhile(lambda frame: frame.filename != SCORING_FILE, frames))
        sentence = f"no Scoring can have the {_first_mistake(error)}"
    last = frames[-1]
    return f"{type(error).__name__} at {os.path.basename(last.filename)}:{last.lineno}: {sentence[:500]}"[:MAX_REASON_CHARS]


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
