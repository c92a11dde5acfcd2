"""What happens when a step of the task ends, handed in or at a limit: custody, hooks, grading, the next step or the end.

The order is the same for all: the student's processes end and that is proved; `pre_scoring_hook`; the copy; the grading;
`post_hook`; then the next step's session, or the machine goes. When a second machine grades, the student's is gone
before the last step is graded.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from karotte_gym.episode import Episode
from karotte_gym.errors import CallRefused, ConfigError, KarotteError, MachineDied
from karotte_gym.scoring import Scoring, StudentMisbehavior

__all__ = ["Grader", "end_step", "start_session"]

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
    """The author's function; what it does wrong names it. What the machine does in it is the student's doing."""
    try:
        hook(*arguments)
    except (StudentMisbehavior, MachineDied, CallRefused, KarotteError):
        raise
    except Exception as error:
        number = len(episode.submissions) + (name == "pre_scoring_hook")
        where = f"{name} of step {number} of task {episode.task.id}"
        raise ConfigError(f"{where} failed: {type(error).__name__}: {error}") from error
