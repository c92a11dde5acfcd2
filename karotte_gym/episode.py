"""What one episode has and leaves: its machine, its evidence, its record. `KarotteEnv` fills it, wrappers score it.

The episode owns every resource of its own (the machine, the directory of copies) and gives them back in `close`, which
any end of it calls: the last submit, misbehaviour, a fault, the next reset, `KarotteEnv.close`, the garbage collector.
"""

from __future__ import annotations

import contextlib
import datetime
import json
import secrets
import time
from dataclasses import asdict
from importlib import metadata
from pathlib import Path
from typing import Any

from karotte_gym.config import SubmissionLimits
from karotte_gym.record import CompletionRecord, StepRecord, SubmittedEntry
from karotte_gym.sandbox import rundir
from karotte_gym.sandbox.contract import Contract, Sandbox, Submission
from karotte_gym.scoring import Scoring, StudentMisbehavior
from karotte_gym.task import Step, Task
from karotte_gym.tool_results import ToolResult
from karotte_gym.tools.call import ToolCall
from karotte_gym.transcript import Event, Transcript, bounded, new_run_directory, write_json
from karotte_gym.vector_safe import vector_safe

__all__ = ["Episode"]

MAX_CLAIM_CHARS = 4096  # the student's last words in the record


class Episode:
    """One episode of one task. `submissions` and `scorings` have one entry for each step that was handed in."""

    def __init__(self, task: Task, *, seed: int, run_dir: str | None):
        self.task = task
        self.seed = seed
        self.run_id = f"{datetime.datetime.now(datetime.UTC):%Y%m%dT%H%M%S}-{task.id}-{secrets.token_hex(4)}"
        self.directory = new_run_directory(Path(run_dir), self.run_id) if run_dir else None
        self.transcript = Transcript(task_id=task.id, run_id=self.run_id, system_prompt=task.system_prompt)
        self.sandbox: Sandbox | None = None
        self.runtime = ""
        self.contracts: tuple[Contract, ...] = ()
        self.messages: list[dict[str, Any]] = []
        self.submissions: list[Submission] = []
        self.scorings: list[Scoring] = []
        self.misbehavior: StudentMisbehavior | None = None
        self.notes: list[str] = []
        self.claimed = ""
        self.calls = 0
        self._step_of_call = 1
        self.over = False
        self._started = time.monotonic()
        self._started_at = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
        self._resources = contextlib.ExitStack()

    @property
    def step(self) -> Step:
        """The step of the task that the student works on, or handed in last."""
        return self.task.steps[min(len(self.submissions), len(self.task.steps) - 1)]

    @property
    def awaits_grading(self) -> bool:
        """Whether a submission was taken that nobody has scored yet."""
        return len(self.scorings) < len(self.submissions)

    @property
    def score(self) -> float | None:
        """The episode's score: 0 for misbehaviour, else that of the last scored step, None when nothing was scored."""
        if self.misbehavior is not None:
            return 0.0
        return self.scorings[-1].score if self.scorings else None

    def begin_call(self) -> None:
        """Count a call and remember which step of the task it belongs to."""
        self.calls += 1
        self._step_of_call = len(self.submissions) + 1

    def note(self, call: ToolCall | str, result: ToolResult, messages: list[dict[str, Any]]) -> Event:
        """Keep what was called and answered; `call` is text when the action was no call."""
        arguments = call if isinstance(call, str) else json.dumps(call.arguments)
        event = Event(
            step=self._step_of_call,
            tool="" if isinstance(call, str) else call.name,
            arguments=arguments,
            result=result.text,
            exit_code=result.exit_code,
            duration_s=result.duration_s,
            bytes_in=len(arguments.encode("utf-8", "replace")),
            bytes_out=result.bytes_out,
            cut=result.truncated,
            timed_out=result.timed_out,
        )
        self.transcript.add(event)
        self.messages += messages
        return event

    def adopt(self, sandbox: Sandbox) -> None:
        """Own the machine from now on."""
        self.sandbox = sandbox
        self.runtime = sandbox.runtime
        self._resources.callback(sandbox.close)

    def take_submission(self, limits: SubmissionLimits) -> Submission:
        """Custody: end everything the student runs, prove it, and copy what the step asks for out of the machine."""
        assert self.sandbox is not None
        self.sandbox.end_session()
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
        self.over = True
        self.destroy_machine()

    def close(self) -> None:
        """Give everything back; idempotent. A run directory stays, it is what the user asked for."""
        self.over = True
        self.sandbox = None
        self._resources.close()

    def closing_info(self) -> dict[str, Any]:
        """What `info` holds at an episode's end, fresh objects each time; writes the files of a run directory."""
        record = self.record().model_dump(mode="json")
        last = self.scorings[-1].metadata if self.scorings else {}
        info: dict[str, Any] = {
            "score": self.score,
            "scoring": vector_safe(last),
            "misbehavior": None if self.misbehavior is None else self.misbehavior.sentence,
            "record": vector_safe(record),
        }
        if self.directory is not None:
            write_json(self.directory / "transcript.json", self.transcript.model_dump(mode="json"))
            write_json(self.directory / "record.json", record)
            info["transcript_path"] = str(self.directory / "transcript.json")
        return info

    def record(self) -> CompletionRecord:
        """The record as things stand."""
        blame = self.misbehavior
        return CompletionRecord(
            task_id=self.task.id,
            run_id=self.run_id,
            runtime=self.runtime,
            seed=self.seed,
            task_config=self.task.config.model_dump_json(),
            claimed=bounded(self.claimed, MAX_CLAIM_CHARS),
            score=self.score,
            misbehavior=None if blame is None else blame.sentence,
            misbehavior_kind=None if blame is None else str(blame.kind),
            steps=[self._step_record(index) for index in range(len(self.submissions))],
            exceptions=self._exceptions(),
            contracts=[asdict(contract) for contract in self.contracts],
            calls=self.calls,
            started_at=self._started_at,
            duration_s=round(time.monotonic() - self._started, 3),
            versions={name: metadata.version(name) for name in ("karotte-gym", "gymnasium")},
        )

    def _directory_for_copies(self) -> str:
        if self.directory is not None:
            directory = self.directory / f"submission-{len(self.submissions) + 1}"
            directory.mkdir(mode=0o700)
            return str(directory)
        directory_of_ours = rundir.create()  # removed by a later run, too, should this process be killed
        self._resources.callback(directory_of_ours.close)
        return str(directory_of_ours.path)

    def _step_record(self, index: int) -> StepRecord:
        submission = self.submissions[index]
        scoring = self.scorings[index] if index < len(self.scorings) else None
        return StepRecord(
            step=index + 1,
            criterion=self.task.steps[index].judge.criterion(self.task.grader_needs()),
            submission_sha256=submission.sha256,
            submission=[
                SubmittedEntry(path=f.path, is_dir=f.is_dir, mode=f.mode, size=f.size, sha256=f.sha256)
                for f in submission.files
            ],
            missing=list(submission.missing),
            score=None if scoring is None else scoring.score,
            metadata={} if scoring is None else json.loads(json.dumps(scoring.metadata)),
        )

    def _exceptions(self) -> list[str]:
        weak = [
            f"{contract.resource} is {contract.enforcement.replace('_', ' ')}: {contract.evidence}"
            for contract in self.contracts
            if contract.enforcement != "prevented"
        ]
        ungraded = ["a submission was taken but not graded"] if self.awaits_grading else []
        unfinished = ["the episode was not finished"] if not self.over else []
        return [*self.notes, *weak, *ungraded, *unfinished]
