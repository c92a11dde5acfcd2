"""The completion record: what was claimed, by which criterion it was judged, on what evidence, and what is unsure.

A reward alone can't be audited. The record names the digests of the judge's code, of its data and of the submission,
so that a score can be traced, disputed and repeated. It holds no secret: digests of grading data, never the data.
"""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, Field

__all__ = ["CompletionRecord", "StepRecord", "SubmittedEntry"]

FORMAT = 1


class _Model(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class SubmittedEntry(_Model):
    """One entry of the listing of a submission."""

    path: str
    is_dir: bool
    mode: int
    size: int
    sha256: str


class StepRecord(_Model):
    """One step of the task: the criterion, the evidence and what came of it."""

    step: int = Field(ge=1)
    criterion: dict[str, str] = Field(description="judge's class, digest of its code and of the grading data")
    submission_sha256: str = ""
    submission: list[SubmittedEntry] = []
    missing: list[str] = []
    score: float | None = Field(default=None, description="None: not graded")
    metadata: dict[str, Any] = {}


class CompletionRecord(_Model):
    """What is left of an episode when all its machines are gone."""

    format: int = FORMAT
    task_id: str
    run_id: str
    runtime: str
    seed: int
    task_config: str = Field(description="JSON text")
    claimed: str = Field(description="the student's last words: a claim, never evidence")
    score: float | None = Field(default=None, description="the episode's score; None when nothing graded it")
    misbehavior: str | None = None
    misbehavior_kind: str | None = None
    steps: list[StepRecord] = []
    exceptions: list[str] = Field(default=[], description="what limits the trust in the score: each a sentence")
    contracts: list[dict[str, Any]] = []
    calls: int = 0
    started_at: str = Field(description="UTC, ISO 8601")
    duration_s: float = 0.0
    versions: dict[str, str] = {}
