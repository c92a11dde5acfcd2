"""What one episode has and leaves: its machine, its evidence, its record. `KarotteEnv` fills it, wrappers score it.

The episode owns every resource of its own (the machine, the directory of copies) and gives them back in `close`, which
any end of it calls: the last submit, misbehaviour, a fault, the next reset, `KarotteEnv.close`, the garbage collector,
the end of the interpreter.
"""

from __future__ import annotations

import contextlib
import datetime
import json
import secrets
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from karotte_gym.bounded_text import bounded
from karotte_gym.config import SubmissionLimits
from karotte_gym.evidence.describe import record_of, without_half_characters
from karotte_gym.evidence.grading_data import GradedWith, digest_of_mapping, digest_of_store
from karotte_gym.evidence.recording import Recording
from karotte_gym.evidence.total import combined_score
from karotte_gym.picture_budget import PictureBudget
from karotte_gym.run_files import new_run_directory
from karotte_gym.sandbox import rundir
from karotte_gym.sandbox.contract import Contract, Sandbox, Submission
from karotte_gym.scoring import Scoring, StudentMisbehavior
from karotte_gym.step_budget import StepBudget
from karotte_gym.task import Step, Task
from karotte_gym.tool_results import ToolResult
from karotte_gym.tools.call import ToolCall
from karotte_gym.transcript import Event, Transcript
from karotte_gym.vector_safe import vector_safe

__all__ = ["STOPPED", "Episode"]

MAX_ERROR_CHARS = 2000
STOPPED = "stopped by its operator"  # the error of an episode that Ctrl-C or SIGTERM ended


class Episode:
    """One episode of one task. `submissions` and `scorings` have one entry for each step that was handed in."""

    def __init__(self, task: Task, *, seed: int, run_dir: str | None):
        self.task = task
        self.seed = seed
        self.run_id = f"{datetime.datetime.now(datetime.UTC):%Y%m%dT%H%M%S}-{task.id}-{secrets.token_hex(4)}"
        self.directory = new_run_directory(Path(run_dir), self.run_id) if run_dir else None
        self.transcript = Transcript(task_id=task.id, run_id=self.run_id, system_prompt=task.system_prompt)
        self.recording = Recording(self.directory, self.transcript)
        self.sandbox: Sandbox | None = None
        self.runtime = ""
        self.contracts: tuple[Contract, ...] = ()
        self.messages: list[dict[str, Any]] = []
        self.submissions: list[Submission] = []
        self.scorings: list[Scoring] = []
        self.misbehavior: StudentMisbehavior | None = None
        self.limit: str | None = None
        self.error: str | None = None
        self.versions: dict[str, str] = {}  # of what ran the machine
        self.graded_with: dict[int, GradedWith] = {}  # by the number of the submission
        self.notes: list[str] = []
        self.claimed = ""
        self.calls = 0
        self.budget = StepBudget(task.steps[0].limits)
        self.pictures = PictureBudget()
        self._chat_begins = 0
        self._step_of_call = 1
        self.over = False
        self.interrupted = False  # whether the last call was cancelled by Ctrl-C or the like
        self.started_monotonic_s = time.monotonic()
        self.started_at = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
        self._resources = contextlib.ExitStack()

    @property
    def step(self) -> Step:
        """The step of the task that the student works on, or handed in last."""
        return self.task.steps[min(len(self.submissions), len(self.task.steps) - 1)]

    @property
    def chat(self) -> list[dict[str, Any]]:
        """The messages of the step that the student works on, its instructions first."""
        return self.messages[self._chat_begins :]

    @property
    def awaits_grading(self) -> bool:
        """Whether a submission was taken that nobody has scored yet."""
        return len(self.scorings) < len(self.submissions)

    @property
    def score(self) -> float | None:
        """The episode's score: 0 for misbehaviour and limits of the model's loop, None for errors and when nothing was
        scored, else what the task makes of its scored steps."""
        if self.error is not None:
            return None
        if self.misbehavior is not None or self.limit is not None:
            return 0.0
        return combined_score(self.task, self.scorings) if self.scorings else None

    def begin_step(self) -> None:
        """The student has its instructions, the last message: from now on the step's limits count."""
        self._chat_begins = len(self.messages) - 1
        self.budget = StepBudget(self.step.limits)
        self.budget.add(self.chat)

    def begin_call(self) -> None:
        """Count a call and remember which step of the task it belongs to."""
        self.calls += 1
        self.interrupted = False
        self.budget.take_turn()
        self._step_of_call = len(self.submissions) + 1

    def note(self, call: ToolCall | str, result: ToolResult, messages: list[dict[str, Any]]) -> Event:
        """Keep what was called and answered; `call` is text when the action was no call."""
        arguments = without_half_characters(call) if isinstance(call, str) else json.dumps(call.arguments)
        event = Event(
            step=self._step_of_call,
            tool="" if isinstance(call, str) else call.name,
            arguments=arguments,
            result=without_half_characters(result.text),
            exit_code=result.exit_code,
            duration_s=result.duration_s,
            bytes_in=len(arguments.encode("utf-8", "replace")),
            bytes_out=result.bytes_out,
            cut=result.truncated,
            timed_out=result.timed_out,
        )
        self.transcript.add(event)
        self.messages += messages
        self.budget.add(messages)
        return event

    def instruct(self, text: str) -> None:
        """Keep what the student is told next."""
        self.transcript.instruct(text)

    def keep_grading_data(self, data: Mapping[str, bytes]) -> None:
        """Keep digests of the episode's own grading data and of the store, which the record names and never holds."""
        self.graded_with[len(self.submissions)] = GradedWith(digest_of_mapping(data), digest_of_store(self.task.store))

    @contextlib.contextmanager
    def faults_recorded(self) -> Iterator[None]:
        """What no student can cause ends the episode with a record that names it, and raises on.

        An interrupt from the keyboard does not: it cancels a call, and the session may go on. If it does not, that is
        why the episode ended.
        """
        try:
            yield
        except StudentMisbehavior:
            raise
        except Exception as error:
            self.fail(error)
            raise
        except BaseException:
            self.interrupted = True
            raise

    def fail(self, error: BaseException) -> None:
        """End the episode without a score, for that error."""
        self.break_off(STOPPED if isinstance(error, KeyboardInterrupt) else f"{type(error).__name__}: {error}")

    def break_off(self, reason: str, *, limit: str | None = None) -> dict[str, Any]:
        """End the episode before it ended by itself: at a limit of the model's loop (score 0) or for an error (none)."""
        if self.error is None and self.limit is None:  # the first reason stands: what came of it is none
            if limit is None:
                self.error = without_half_characters(bounded(reason, MAX_ERROR_CHARS))
            else:
                self.limit = limit
        self.end()
        return self.closing_info()

    def adopt(self, sandbox: Sandbox) -> None:
        """Own the machine from now on."""
        self.sandbox = sandbox
        self.runtime = sandbox.runtime
        self.versions = dict(sandbox.versions)
        self._resources.callback(sandbox.close)

    def take_submission(self, limits: SubmissionLimits) -> Submission:
        """Custody: copy what the step asks for out of the machine, in which nothing of the student's runs any more."""
        assert self.sandbox is not None
        into = self._directory_for_copies()
        submission = self.sandbox.collect_submission(self.step.submission_paths, into, limits=limits)
        self.submissions.append(submission)
        return submission

    def destroy_machine(self) -> None:
        """End the machine; copies stay until `close`."""
        if self.sandbox is not None:
            self.sandbox.close()
            self.sandbox = None

    def end(self) -> None:
        """No more calls: the machine goes."""
        if self.interrupted and not self.over and self.error is None and self.limit is None:
            self.error = STOPPED
        self.over = True
        self.destroy_machine()

    def close(self) -> None:
        """Give everything back; idempotent. A run directory stays, it is what the user asked for.

        In it is a record, also when nobody ended the episode: a script that dies comes here by way of the interpreter's
        end and nowhere else.
        """
        try:
            if not self.over:
                self.notes.append("the episode was given up before its end")
                self.end()
            if self.directory is not None and self.recording.record is None:
                self.closing_info()
        finally:
            self.sandbox = None
            self._resources.close()

    def closing_info(self) -> dict[str, Any]:
        """What `info` holds at an episode's end, fresh objects each time; writes the record into a run directory."""
        record = self.recording.keep(record_of(self))
        last = self.scorings[-1].metadata if self.scorings else {}
        info: dict[str, Any] = {
            "score": self.score,
            "scoring": vector_safe(last),
            "misbehavior": None if self.misbehavior is None else self.misbehavior.sentence,
            "record": vector_safe(record.model_dump(mode="json")),
        }
        if self.recording.transcript_path is not None:
            info["transcript_path"] = str(self.recording.transcript_path)
        return info

    def _directory_for_copies(self) -> str:
        if self.directory is not None:
            directory = self.directory / f"submission-{len(self.submissions) + 1}"
            directory.mkdir(mode=0o700)
            return str(directory)
        directory_of_ours = rundir.create()  # removed by a later run, too, should this process be killed
        self._resources.callback(directory_of_ours.close)
        return str(directory_of_ours.path)
