"""`record_of`: an episode as things stand, put into the words of its record."""

from __future__ import annotations

import json
import time
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from karotte_gym.bounded_text import bounded
from karotte_gym.evidence.grading_data import GradedWith
from karotte_gym.evidence.versions import versions_here
from karotte_gym.record import CompletionRecord, StepRecord, SubmittedEntry
from karotte_gym.sandbox.contract import SubmittedFile

if TYPE_CHECKING:
    from karotte_gym.episode import Episode

__all__ = ["record_of", "without_half_characters"]

GONE = {"left": "the agent left before the end", "silence": "the agent fell silent before the end"}  # no limit of a loop
MAX_CLAIM_CHARS = 4096  # the student's last words


def record_of(episode: Episode) -> CompletionRecord:
    """The record, without the artifacts and the seal that `Recording.keep` adds."""
    blame = episode.misbehavior
    return CompletionRecord(
        task_id=episode.task.id,
        run_id=episode.run_id,
        runtime=episode.runtime,
        seed=int(episode.seed),  # which may be numpy's
        task_config=episode.task.config.model_dump_json(),
        claimed=bounded(without_half_characters(episode.claimed), MAX_CLAIM_CHARS),
        score=episode.score,
        misbehavior=None if blame is None else blame.sentence,
        misbehavior_kind=None if blame is None else str(blame.kind),
        limit=episode.limit,
        error=episode.error,
        steps=[_step(episode, index) for index in range(len(episode.submissions))],
        exceptions=_exceptions(episode),
        contracts=[asdict(contract) for contract in episode.contracts],
        calls=episode.calls,
        started_at=episode.started_at,
        duration_s=round(time.monotonic() - episode.started_monotonic_s, 3),
        versions=versions_here() | episode.versions,
    )


def without_half_characters(text: str) -> str:
    """A model can write lone surrogates, which no file takes."""
    return text.encode("utf-8", "replace").decode("utf-8")


def _step(episode: Episode, index: int) -> StepRecord:
    submission = episode.submissions[index]
    scoring = episode.scorings[index] if index < len(episode.scorings) else None
    graded_with = episode.graded_with.get(index + 1, GradedWith())
    return StepRecord(
        step=index + 1,
        criterion=episode.task.steps[index].judge.criterion(episode.task.grader_needs()),
        episode_data_sha256=graded_with.data_sha256,
        store_sha256=graded_with.store_sha256,
        submission_sha256=submission.sha256,
        submission=[_entry(file, episode.directory) for file in submission.files],
        missing=list(submission.missing),
        score=None if scoring is None else scoring.score,
        metadata={} if scoring is None else json.loads(json.dumps(scoring.metadata)),
    )


def _entry(file: SubmittedFile, directory: Path | None) -> SubmittedEntry:
    """`artifact` has our own number for a name; the student's is text in the listing and never a path of the host."""
    return SubmittedEntry(
        path=file.path,
        is_dir=file.is_dir,
        mode=file.mode,
        size=file.size,
        sha256=file.sha256,
        artifact="" if directory is None or file.is_dir else str(Path(file.data_path).relative_to(directory)),
    )


def _exceptions(episode: Episode) -> list[str]:
    """What limits the trust in the score, most telling first."""
    found = [f"the episode has no score: {episode.error}"] if episode.error is not None else []
    if episode.limit is not None:
        found.append(GONE.get(episode.limit) or f"the limit of {episode.limit} ended the episode before it was handed in")
    found += episode.notes
    found += [
        f"{contract.resource} is {contract.enforcement.replace('_', ' ')}: {contract.evidence}"
        for contract in episode.contracts
        if contract.enforcement != "prevented"
    ]
    if episode.awaits_grading:
        found.append("a submission was taken but not graded")
    if not episode.over:
        found.append("the episode was not finished")
    if episode.transcript.events_left_out:
        found.append(f"{episode.transcript.events_left_out} calls are not in the transcript, which was full")
    if episode.directory is None:
        found.append("no run directory was given: neither transcript nor submission were kept")
    return found
