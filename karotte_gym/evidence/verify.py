"""`verify`: whether what an episode left still is what its record says, artifact by artifact.

Three questions, answered apart: is the record as it was sealed; is each file beside it the one that it names, with
nothing missing and nothing added; and is the task that is installed now the one that the score came from.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from karotte_gym.errors import EvidenceError
from karotte_gym.evidence.files import digest_of
from karotte_gym.evidence.listing import names_in
from karotte_gym.evidence.sealing import KEY_VARIABLE, broken_seal, read_record
from karotte_gym.record import RECORD, Artifact, CompletionRecord, StepRecord
from karotte_gym.sandbox.contract import SubmittedFile
from karotte_gym.sandbox.submission import listing_digest
from karotte_gym.task import Task
from karotte_gym.transcript import TRANSCRIPT, Transcript

__all__ = ["Finding", "Verdict", "Verified", "changes_of_task", "verify"]

Verdict = Literal["ok", "differs", "missing", "additional", "unfinished", "not checked"]
_HARMLESS = ("ok", "not checked")


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
    found = [_seal(record, key), *_identity(directory, record)]
    found += [_artifact(directory, name, artifact) for name, artifact in record.artifacts.items()]
    found += [
        Finding(name, "additional", "the record does not know it") for name in sorted(names - set(record.artifacts) - {RECORD})
    ]
    for step in record.steps:
        found += _listing(step, record)
    return Verified(directory, record, found)


def changes_of_task(record: CompletionRecord, task: type[Task]) -> Iterator[Finding]:
    """Whether each step is judged today by the code and the data that judged it then."""
    for step in record.steps:
        name = f"step {step.step}"
        if step.step > len(task.steps):
            yield Finding(name, "differs", f"the task has changed since: it has {len(task.steps)} steps now")
            continue
        now = task.steps[step.step - 1].judge.criterion(task.grader_needs())
        changed = sorted(key for key in {*now, *step.criterion} if now.get(key) != step.criterion.get(key))
        if changed:
            yield Finding(name, "differs", f"the task has changed since: {', '.join(changed)} of its judge")
        else:
            yield Finding(name, "ok", "judged by what is installed")


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


def _artifact(directory: Path, name: str, expected: Artifact) -> Finding:
    try:
        sha256, size = digest_of(directory, name)
    except FileNotFoundError:
        return Finding(name, "missing", "the record names it and it is not there")
    except EvidenceError as error:
        return Finding(name, "differs", str(error))
    except OSError as error:
        return Finding(name, "differs", f"it can't be read: {error.strerror}")
    if size != expected.size:
        return Finding(name, "differs", f"it has {size} bytes, the record says {expected.size}")
    if sha256 != expected.sha256:
        return Finding(name, "differs", "its content is not what was recorded")
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
