"""What happens when a step of the task ends, handed in or at a limit: custody, hooks, grading, the next step or the end.

The order is the same for all: the student's processes end and that is proved; `pre_scoring_hook`; the copy; the grading;
`post_hook`; then the next step's session, or the machine goes. When a second machine grades, the student's is gone
before the last step is graded.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

from karotte_gym.blame import OURS
from karotte_gym.episode import Episode
from karotte_gym.errors import CallRefused, KarotteError
from karotte_gym.scoring import MisbehaviorKind, Scoring, StudentMisbehavior
from karotte_gym.tools.own_result import message_of, warn_author
from karotte_gym.tools.text import clean

__all__ = ["Grader", "end_step", "start_session"]

KEPT_CHARS = 1000  # of an error's text
Grader = Callable[[Episode, tuple[dict[str, Any], ...]], Scoring]


def end_step(episode: Episode, messages: list[dict[str, Any]], grader: Grader | None) -> str | None:
    """Take, grade and go on. Returns the next step's instructions, None when the episode is over.

    `messages` answer the call that ended the step; a judge sees them, too. Raises StudentMisbehavior, MachineDied and
    CallRefused for what the student's machine did, anything else for what no student can cause.
    """
    step, store = episode.step, episode.task.store
    assert episode.sandbox is not None
    episode.sandbox.end_session()
    if step.pre_scoring_hook is not None:
        _run_hook(episode, "pre_scoring_hook", step.pre_scoring_hook, episode.sandbox, store)
    episode.take_submission(episode.task.submission_limits)
    last = len(episode.submissions) == len(episode.task.steps)
    if last and episode.task.grade_in == "grader":
        episode.destroy_machine()
    scoring = None if grader is None else grader(episode, (*episode.chat, *messages))
    if step.post_hook is not None:
        _run_hook(episode, "post_hook", step.post_hook, episode.sandbox, store, scoring)
    if last or (scoring is not None and scoring.stop_task):
        if not last:
            episode.notes.append(f"the judge stopped the task after step {len(episode.submissions)}")
        episode.end()
        return None
    start_session(episode)
    return episode.step.instructions


def start_session(episode: Episode) -> None:
    """Let the student in, for the first step or another."""
    assert episode.sandbox is not None
    episode.contracts = episode.sandbox.start_session(episode.task.limits)


def _run_hook(episode: Episode, name: str, hook: Callable[..., None], *arguments: Any) -> None:
    """The author's function, called when the student has had the machine, so its failure may be the student's doing.

    Nobody can tell it from a mistake in the hook. A student that found out how would have its losing episodes dropped,
    so it scores 0, and the author is warned. What comes of our machinery raises, and so does a KarotteError of the hook's.
    """
    try:
        hook(*arguments)
    except CallRefused as error:
        if error.kind not in OURS:
            raise
        _hook_failed(episode, name, error)
    except (StudentMisbehavior, KarotteError):
        raise
    except Exception as error:
        _hook_failed(episode, name, error)


def _hook_failed(episode: Episode, name: str, error: Exception) -> NoReturn:
    """The student reads the sentence, so the error's text, which may quote what it must not know, is in the record alone."""
    number = len(episode.submissions) + (name == "pre_scoring_hook")
    sentence = f"{name} of step {number} could not work with what was left behind ({type(error).__name__})"
    file, line = _place(error)
    said = clean(f"{type(error).__name__}: {message_of(error)}"[:KEPT_CHARS].encode("utf-8", "replace"))
    episode.notes.append(f"{name} of step {number} failed at {file.name}:{line}: {said}")
    where = f"{file}:{line}: {name} of step {number} of task {episode.task.id}"
    warn_author(file, f"{where} failed: {said}; the episode scores 0")
    raise StudentMisbehavior(MisbehaviorKind.HOOK_FAILED, sentence) from error


def _place(error: Exception) -> tuple[Path, int]:
    """The innermost line of the hook's own file; that of the call of the hook when it is not written in Python."""
    frames = traceback.extract_tb(error.__traceback__)
    own = frames[min(1, len(frames) - 1)].filename
    return Path(own), next(frame.lineno or 0 for frame in reversed(frames) if frame.filename == own)
