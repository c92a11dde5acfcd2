"""`verify`: whether what an episode left still is what its record says, artifact by artifact.

Four questions, answered apart: is the record as it was sealed; is each file beside it the one that it names, with
nothing missing and nothing added; does the score follow from those of the steps; and is the task that is installed now
the one that the score came from.
"""

from __future__ import annotations

import hashlib
import math
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from karotte_gym.errors import EvidenceError
from karotte_gym.evidence.listing import MAX_NAMES, names_in
from karotte_gym.evidence.sealing import KEY_VARIABLE, broken_seal, read_record
from karotte_gym.evidence.total import combines_by_itself, graded_steps, is_of_its_steps, wrong_score
from karotte_gym.record import RECORD, Artifact, CompletionRecord, StepRecord
from karotte_gym.run_files import BLOCK_BYTES, open_below
from karotte_gym.sandbox.contract import SubmittedFile
from karotte_gym.sandbox.submission import listing_digest
from karotte_gym.task import Task
from karotte_gym.transcript import TRANSCRIPT, Transcript

__all__ = ["Finding", "Verdict", "Verified", "changes_of_task", "score_of_steps", "verify"]

Verdict = Literal["ok", "differs", "missing", "additional", "unfinished", "not checked"]
_HARMLESS = ("ok", "not checked")
MAX_HASHED_BYTES = 10 * 1024**3  # of an episode: ten full submissions; a forger's record may name holes of any size
SCORE_TOLERANCE = 1e-9
NOT_COMPARED = "; not compared: versions, hardware, and code from outside the task's folder"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at: a file by its name in the directory, "seal", or "step 1" of the task."""

    artifact: str
    verdict: Verdict
    sentence: str = ""

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong as far as it was checked."""
        return self.verdict in _HARMLESS


@dataclass(slots=True)
class Verified:
    """One episode's directory. `record` is None when there is none that can be read."""

    directory: Path
    record: CompletionRecord | None
    findings: list[Finding] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        """Whether every finding is."""
        return all(finding.ok for finding in self.findings)


def verify(directory: Path, key: bytes | None) -> Verified:
    """Check the directory of one episode. A student's or a stranger's files never make it raise."""
    try:
        names = set(names_in(directory))
    except EvidenceError as error:
        return Verified(directory, None, [Finding(str(directory.name), "differs", str(error))])
    if RECORD not in names:
        return Verified(directory, None, [_unfinished(directory, names)])
    try:
        record = read_record(directory / RECORD)
    except EvidenceError as error:
        return Verified(directory, None, [Finding(RECORD, "differs", str(error))])
    if len(record.artifacts) > MAX_NAMES:
        sentence = f"it names {len(record.artifacts)} artifacts, of which no episode has more than {MAX_NAMES}"
        return Verified(directory, record, [Finding(RECORD, "differs", sentence)])
    found = [_seal(record, key), *_identity(directory, record), *_artifacts(directory, record)]
    found += [Finding(name, "additional", "the record does not know it") for name in sorted(names - _known(record) - {RECORD})]
    for step in record.steps:
        found += _listing(step, record)
    return Verified(directory, record, found)


def changes_of_task(record: CompletionRecord, task: type[Task]) -> Iterator[Finding]:
    """Whether each step is judged today by the code and the data that judged it then."""
    for number, step in enumerate(record.steps, start=1):  # whose own numbers may be anything: `_identity` looks at them
        name = f"step {number}"
        if number > len(task.steps):
            yield Finding(name, "differs", f"the task has changed since: it has {len(task.steps)} steps now")
            return
        now = task.steps[number - 1].judge.criterion(task.grader_needs())
        changed = sorted(key for key in {*now, *step.criterion} if now.get(key) != step.criterion.get(key))
        if changed:
            yield Finding(name, "differs", f"the task has changed since: {', '.join(changed)} of its judge")
        else:
            yield Finding(name, "ok", f"judged by what is installed{NOT_COMPARED}")


def score_of_steps(record: CompletionRecord, task: type[Task]) -> Iterator[Finding]:
    """Whether the score is that of the last scored step, for a task that makes nothing else of its steps."""
    graded = graded_steps(record)
    if not graded or not is_of_its_steps(record):
        return  # `wrong_score` has told all that there is to tell
    assert record.score is not None
    last = graded[-1].score or 0.0
    if combines_by_itself(task):
        yield Finding(
            "score", "not checked", "the task combines its steps' scores in a way of its own, which --regrade repeats"
        )
    elif math.isclose(record.score, last, abs_tol=SCORE_TOLERANCE):
        yield Finding("score", "ok", f"{last}, as of the last step that was scored")
    else:
        yield Finding("score", "differs", f"it is {record.score}, and that of the last step that was scored is {last}")


def _unfinished(directory: Path, names: set[str]) -> Finding:
    """No record: the process was killed, or goes on. What was played until then can still be read."""
    if TRANSCRIPT not in names:
        return Finding(RECORD, "missing", "there is neither a record nor a transcript")
    try:
        transcript = Transcript.read(directory / TRANSCRIPT)
    except EvidenceError as error:
        return Finding(RECORD, "unfinished", f"there is no record, and of the transcript: {error}")
    torn = "; the last line is torn" if transcript.torn else ""
    played = f"{len(transcript.events)} calls were played{torn}"
    return Finding(RECORD, "unfinished", f"there is no record: the process was killed or still runs; {played}")


def _seal(record: CompletionRecord, key: bytes | None) -> Finding:
    wrong = broken_seal(record, key)
    if wrong is not None:
        return Finding("seal", "differs", wrong)
    if record.seal is not None and record.seal.hmac_sha256 is not None and key is None:
        return Finding("seal", "not checked", f"the digest holds; set {KEY_VARIABLE} to check the signature")
    if key is None:
        return Finding("seal", "ok", "the digest holds; nothing is signed, so who can write it could have made another")
    return Finding("seal", "ok", "digest and signature hold")


def _identity(directory: Path, record: CompletionRecord) -> Iterator[Finding]:
    """A whole directory that was put in place of another is a fault that no digest inside it shows."""
    if directory.resolve().name != record.run_id:
        yield Finding(RECORD, "differs", f"it belongs to {record.run_id:.200}, not to this directory")
    if [step.step for step in record.steps] != list(range(1, len(record.steps) + 1)):
        yield Finding(RECORD, "differs", "its steps are not numbered from 1")
    if TRANSCRIPT not in record.artifacts:
        yield Finding(TRANSCRIPT, "missing", "the record names no transcript")
    if (wrong := wrong_score(record)) is not None:
        yield Finding("score", "differs", wrong)


def _known(record: CompletionRecord) -> set[str]:
    """Names that belong there: the artifacts, and the directories of submissions that are empty.

    One more may be of a submission that failed while it was taken, which only an episode that ended by it leaves.
    """
    failed = not record.error is record.misbehavior is record.limit is None
    taken = len(record.steps) + (1 if failed else 0)
    return {*record.artifacts, *(f"submission-{number}/" for number in range(1, taken + 1))}


def _artifacts(directory: Path, record: CompletionRecord) -> Iterator[Finding]:
    left = MAX_HASHED_BYTES
    for name, artifact in record.artifacts.items():
        fits = artifact.size <= left
        left -= artifact.size if fits else 0
        yield _artifact(directory, name, artifact, fits)


def _artifact(directory: Path, name: str, expected: Artifact, fits: bool) -> Finding:
    try:
        wrong = _difference(directory, name, expected.sha256, expected.size, read_it=fits)
    except FileNotFoundError:
        return Finding(name, "missing", "the record names it and it is not there")
    except EvidenceError as error:
        return Finding(name, "differs", str(error))
    except OSError as error:
        return Finding(name, "differs", f"it can't be read: {error.strerror}")
    if wrong is not None:
        return Finding(name, "differs", wrong)
    if not fits:
        return Finding(name, "not checked", f"its size is right; of an episode {MAX_HASHED_BYTES} bytes are read")
    return Finding(name, "ok")


def _listing(step: StepRecord, record: CompletionRecord) -> Iterator[Finding]:
    """The record within itself: the digest of the submission is that of its listing, and each file is an artifact."""
    name = f"submission of step {step.step}"
    listed = [SubmittedFile(each.path, each.is_dir, each.mode, each.size, each.sha256, "") for each in step.submission]
    if listing_digest(listed) != step.submission_sha256:
        yield Finding(name, "differs", "its digest is not that of its listing")
        return
    for entry in step.submission:
        if entry.is_dir:
            continue
        if record.artifacts.get(entry.artifact) != Artifact(sha256=entry.sha256, size=entry.size):
            yield Finding(name, "differs", f"no artifact holds {entry.path!r:.200} as it is listed")
            return
    yield Finding(name, "ok", f"{len(step.submission)} entries as listed")


def _difference(directory: Path, name: str, sha256: str, size: int, *, read_it: bool = True) -> str | None:
    """In which way an artifact is not the one of that digest and size, as a sentence; None when it is. Raises as `open_below`.

    The size is looked at first: a file of terabytes costs whoever made it nothing and whoever hashes it hours. One that
    grows meanwhile is read no further than its size. Without `read_it` its content may be any.
    """
    descriptor = open_below(directory, name)
    with os.fdopen(descriptor, "rb") as stream:
        found = os.fstat(descriptor).st_size
        if found != size:
            return f"it has {found} bytes, the record says {size}"
        if not read_it:
            return None
        digest, left = hashlib.sha256(), size
        while left and (block := stream.read(min(BLOCK_BYTES, left))):
            digest.update(block)
            left -= len(block)
    return None if not left and digest.hexdigest() == sha256 else "its content is not what was recorded"
