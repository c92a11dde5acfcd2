"""The completion record: what was claimed, by which criterion it was judged, on what evidence, and what is unsure.

A reward alone can't be audited. The record names the digests of the judge's code, of its data and of the submission,
so that a score can be traced, disputed and repeated. It holds digests of grading data, never the data. `seal` digests
the record itself; docs/evidence.md says what that proves and what it does not.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

__all__ = ["RECORD", "Artifact", "CompletionRecord", "Seal", "StepRecord", "SubmittedEntry"]

RECORD = "record.json"
FORMAT: Literal[2] = 2
Score = Annotated[float, Field(ge=0, le=1)]


class _Model(BaseModel):
    """Strict: read from a stranger's file, ``true`` is no score of 1 and ``"5"`` no number of calls."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)


class SubmittedEntry(_Model):
    """One entry of the listing of a submission."""

    path: str
    is_dir: bool
    mode: int = Field(ge=0)
    size: int = Field(ge=0)
    sha256: str
    artifact: str = Field(default="", description='file of the run directory that holds the bytes; "": none is kept')


class Artifact(_Model):
    """One file beside the record."""

    sha256: str
    size: int = Field(ge=0)


class Seal(_Model):
    """Digests of the record without its seal: anybody's, and one that takes a key to make."""

    sha256: str
    hmac_sha256: str | None = Field(default=None, description="None: no KAROTTE_GYM_RECORD_KEY was set")


class StepRecord(_Model):
    """One step of the task: the criterion, the evidence and what came of it."""

    step: int = Field(ge=1)
    criterion: dict[str, str] = Field(description="judge's class, digest of its code and of the grading data")
    episode_data_sha256: str = Field(default="", description="of Task.grading_data, which was used in place of root_data")
    store_sha256: str = Field(default="", description='of the episode\'s ProtectedStore as the judge got it; "": empty')
    submission_sha256: str = ""
    submission: list[SubmittedEntry] = []
    missing: list[str] = []
    score: Score | None = Field(default=None, description="None: not graded")
    metadata: dict[str, Any] = {}


class CompletionRecord(_Model):
    """What is left of an episode when all its machines are gone."""

    format: Literal[2] = FORMAT
    task_id: str
    run_id: str
    runtime: str
    seed: int = Field(ge=0)
    task_config: str = Field(description="JSON text")
    claimed: str = Field(description="the student's last words: a claim, never evidence")
    score: Score | None = Field(default=None, description="the episode's score; None when nothing graded it")
    misbehavior: str | None = None
    misbehavior_kind: str | None = None
    limit: str | None = Field(
        default=None,
        description="what ended the episode with 0: a limit of the model's loop, or `left` or `silence` of an agent over MCP",
    )
    error: str | None = Field(default=None, description="what went wrong that no student can cause; the score is None then")
    steps: list[StepRecord] = []
    exceptions: list[str] = Field(default=[], description="what limits the trust in the score: each a sentence")
    contracts: list[dict[str, Any]] = []
    calls: int = Field(default=0, ge=0)
    started_at: str = Field(description="UTC, ISO 8601")
    duration_s: float = Field(default=0.0, ge=0)
    versions: dict[str, str] = {}
    artifacts: dict[str, Artifact] = Field(default={}, description="every file of the run directory but this one")
    seal: Seal | None = None
