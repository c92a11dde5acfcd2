"""Grades a stored submission once more, in a grader machine that knows nothing of the first time.

What a task drew from its seed is drawn again: `Task.pre_hook` runs in a fresh student's machine with the same generator,
and what comes of it is compared with the digest in the record before anything is graded. So the expected value need not
be kept anywhere, and a task whose draw depends on more than its seed is found out. From the scores of the steps the
episode's own is made again.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from pathlib import Path

from gymnasium.utils import seeding

from karotte_gym.errors import EvidenceError
from karotte_gym.evidence.chat import chat_of_step
from karotte_gym.evidence.grading_data import digest_of_mapping, digest_of_store
from karotte_gym.evidence.stored_submission import stored_submission
from karotte_gym.evidence.total import combined_score, combines_by_itself, graded_steps, is_of_its_steps, scoring_of
from karotte_gym.evidence.verify import Finding
from karotte_gym.judges.base import Evidence, Judge
from karotte_gym.record import CompletionRecord, StepRecord
from karotte_gym.sandbox import machines
from karotte_gym.sandbox.contract import Sandbox, Submission
from karotte_gym.scoring import Scoring
from karotte_gym.task import Task
from karotte_gym.tools.own_files import tool_files
from karotte_gym.transcript import TRANSCRIPT, Transcript

__all__ = ["regrade"]

ROUNDING = 1e-9  # of a total, which may come from a sum


def regrade(
    directory: Path, record: CompletionRecord, task_class: type[Task], tolerance: float | None = None
) -> Iterator[Finding]:
    """A finding for each step that has a score, and one for what the task makes of them.

    `tolerance`: by how much a step's score may differ; default: the task's own.

    Raises a KarotteError when a machine or a judge fails, and ConfigError when the task no longer takes the record's
    configuration.
    """
    graded = graded_steps(record)
    if not graded:
        yield Finding("score", "not checked", "nothing was graded, so there is nothing to repeat")
        return
    if task_class.grade_in == "student":
        yield Finding("score", "not checked", "the task is graded on the student's machine, which is gone")
        if combines_by_itself(task_class):
            yield from _total(record, _replayed(task_class, record), [None] * len(graded), 0.0)
        return
    allowed = task_class.score_tolerance if tolerance is None else tolerance
    task = _replayed(task_class, record)
    again: list[Scoring | None] = []
    with tempfile.TemporaryDirectory(prefix="karotte-regrade-") as private:
        for number, step in enumerate(graded):
            finding, scoring = _regraded_step(directory, record, step, task, Path(private) / str(number), allowed)
            again.append(scoring)
            yield finding
    yield from _total(record, task, again, allowed)


def _replayed(task_class: type[Task], record: CompletionRecord) -> Task:
    """The episode's task as it was when the student was let in."""
    try:
        config = json.loads(record.task_config)
    except (ValueError, RecursionError) as error:
        raise EvidenceError(f"the record's task_config is no JSON: {error}") from error
    task = task_class(config)
    if task_class.pre_hook is not Task.pre_hook:
        rng, _ = seeding.np_random(record.seed)
        with _closing(machines.start(task_class.student_machine())) as sandbox:
            sandbox.start_session(task_class.limits)
            task.pre_hook(sandbox, rng)
    task.configure_tools()  # may store something, as it may have then
    return task


def _regraded_step(
    directory: Path, record: CompletionRecord, step: StepRecord, task: Task, private: Path, tolerance: float
) -> tuple[Finding, Scoring | None]:
    """The scoring is None where the step was not graded again."""
    name = f"score of step {step.step}"
    if step.step > len(task.steps):
        return Finding(name, "differs", f"the task has {len(task.steps)} steps now"), None
    data = dict(task.grading_data())
    if digest_of_mapping(data) != step.episode_data_sha256:
        return Finding(name, "differs", "the seed gives other grading data now: pre_hook draws from more than its rng"), None
    if digest_of_store(task.store) != step.store_sha256:
        return _other_store(name, task, step.step), None
    try:
        asked = task.steps[step.step - 1].submission_paths
        submission = stored_submission(directory, step, private, asked, task.submission_limits)
        messages = chat_of_step(Transcript.read(directory / TRANSCRIPT), step.step)
    except EvidenceError as error:
        return Finding(name, "differs", str(error)), None
    judge = task.steps[step.step - 1].judge
    evidence = _evidence(task, judge, submission, record.seed, data, messages)
    scoring = judge.judge(evidence)
    assert step.score is not None
    return _compared(name, "graded again it is ", scoring.score, step.score, tolerance), scoring


def _other_store(name: str, task: Task, step: int) -> Finding:
    """A digest that is made up would keep a score from being repeated, so something must be able to have stored another."""
    before = task.steps[:step]
    by_hooks = any(each.pre_scoring_hook for each in before) or any(each.post_hook for each in before[:-1])
    by_judges = step > 1 and len(task.store) > 0
    if by_hooks or by_judges or set(tool_files(task.folder())) & set(task.tools):
        return Finding(name, "not checked", "its judge had what hooks or tools stored, which the seed alone does not give")
    return Finding(name, "differs", "the seed gives another store now, and no hook or tool writes to it after pre_hook")


def _total(record: CompletionRecord, task: Task, again: Sequence[Scoring | None], tolerance: float) -> Iterator[Finding]:
    """What the task makes of the scores: of those given again, and of the recorded ones where there is none.

    Each step may differ by the tolerance, so what is made of several may by as much for each.
    """
    if not is_of_its_steps(record):
        return
    assert record.score is not None
    recorded = graded_steps(record)
    try:
        scorings = [scoring_of(step) if scoring is None else scoring for scoring, step in zip(again, recorded, strict=True)]
        total = combined_score(task, scorings)
    except Exception as error:  # the author's code, given what is in a record that may be anybody's
        yield Finding("score", "differs", f"combine_scores fails with the steps' scores: {type(error).__name__}: {error}")
        return
    yield _compared("score", "the task makes of its steps ", total, record.score, tolerance * len(recorded) + ROUNDING)


def _compared(name: str, how: str, again: float, recorded: float, tolerance: float) -> Finding:
    if abs(again - recorded) <= tolerance:
        return Finding(name, "ok", f"{again} again" if again == recorded else f"{again}, recorded {recorded}")
    return Finding(name, "differs", f"{how}{again}, recorded {recorded}")


def _evidence(
    task: Task,
    judge: Judge,
    submission: Submission,
    seed: int,
    data: dict[str, bytes],
    messages: tuple[dict[str, object], ...],
) -> Evidence:
    machine_for = partial(_grader_machine, task)
    return Evidence(
        submission=submission,
        grader_machine=partial(machine_for, judge),
        grading_data=data,
        messages=messages,
        store=task.store,
        seed=seed,
        root_data=task.grader_needs().root_data,
        machine_for=machine_for,
    )


def _grader_machine(task: Task, judge: Judge) -> AbstractContextManager[Sandbox]:
    spec = judge.machine(task.grader_needs())
    if spec is None:
        raise EvidenceError(f"{type(judge).__name__} asked for a grader machine that it had not said it needs")
    return _closing(machines.start(spec))


@contextmanager
def _closing(sandbox: Sandbox) -> Iterator[Sandbox]:
    try:
        yield sandbox
    finally:
        sandbox.close()
