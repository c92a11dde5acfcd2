"""Grades a stored submission once more, in a grader machine that knows nothing of the first time.

What a task drew from its seed is drawn again: `Task.pre_hook` runs in a fresh student's machine with the same generator,
and what comes of it is compared with the digest in the record before anything is graded. So the expected value need not
be kept anywhere, and a task whose draw depends on more than its seed is found out.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from pathlib import Path

from gymnasium.utils import seeding

from karotte_gym.errors import EvidenceError
from karotte_gym.evidence.chat import chat_of_step
from karotte_gym.evidence.grading_data import digest_of_mapping, digest_of_store
from karotte_gym.evidence.stored_submission import stored_submission
from karotte_gym.evidence.verify import Finding
from karotte_gym.judges.base import Evidence, Judge
from karotte_gym.record import CompletionRecord, StepRecord
from karotte_gym.sandbox import machines
from karotte_gym.sandbox.contract import Sandbox, Submission
from karotte_gym.task import Task
from karotte_gym.transcript import TRANSCRIPT, Transcript

__all__ = ["regrade"]


def regrade(
    directory: Path, record: CompletionRecord, task_class: type[Task], tolerance: float | None = None
) -> Iterator[Finding]:
    """A finding for each step that has a score. `tolerance`: by how much it may differ; default: the task's own.

    Raises a KarotteError when a machine or a judge fails, and ConfigError when the task no longer takes the record's
    configuration.
    """
    graded = [step for step in record.steps if step.score is not None]
    if not graded:
        yield Finding("score", "not checked", "nothing was graded, so there is nothing to repeat")
        return
    if task_class.grade_in == "student":
        yield Finding("score", "not checked", "the task is graded on the student's machine, which is gone")
        return
    allowed = task_class.score_tolerance if tolerance is None else tolerance
    task = _replayed(task_class, record)
    with tempfile.TemporaryDirectory(prefix="karotte-regrade-") as private:
        for number, step in enumerate(graded):
            yield _regraded_step(directory, record, step, task, Path(private) / str(number), allowed)


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
    return task


def _regraded_step(
    directory: Path, record: CompletionRecord, step: StepRecord, task: Task, private: Path, tolerance: float
) -> Finding:
    name = f"score of step {step.step}"
    if step.step > len(task.steps):
        return Finding(name, "differs", f"the task has {len(task.steps)} steps now")
    data = dict(task.grading_data())
    if digest_of_mapping(data) != step.episode_data_sha256:
        return Finding(name, "differs", "the seed gives other grading data now: pre_hook draws from more than its rng")
    if digest_of_store(task.store) != step.store_sha256:
        return Finding(name, "not checked", "its judge had what hooks or tools stored, which the seed alone does not give")
    try:
        asked = task.steps[step.step - 1].submission_paths
        submission = stored_submission(directory, step, private, asked, task.submission_limits)
        messages = chat_of_step(Transcript.read(directory / TRANSCRIPT), step.step)
    except EvidenceError as error:
        return Finding(name, "differs", str(error))
    judge = task.steps[step.step - 1].judge
    evidence = _evidence(task, judge, submission, record.seed, data, messages)
    again = judge.judge(evidence).score
    assert step.score is not None
    if abs(again - step.score) <= tolerance:
        return Finding(name, "ok", f"{again} again" if again == step.score else f"{again}, recorded {step.score}")
    return Finding(name, "differs", f"graded again it is {again}, recorded {step.score}")


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
