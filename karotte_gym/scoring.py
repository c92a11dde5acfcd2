"""What an episode is worth: a `Scoring` from a judge, or `StudentMisbehavior`, which is a score of 0 with a reason.

Misbehaviour is what the student can cause: a link where its answer should be, a process that can't be ended, a machine
that it broke. It is an exception because it ends the episode from any depth, and it is *not* a `KarotteError`, because
nobody has to repair anything. `MisbehaviorToZero` turns it into reward 0; everything else raises through.
"""

from __future__ import annotations

import json
from enum import StrEnum
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, StrictBool, field_validator

__all__ = ["MAX_METADATA_BYTES", "MAX_METADATA_DEPTH", "MisbehaviorKind", "Scoring", "StudentMisbehavior"]

MAX_METADATA_BYTES = 64 * 1024  # kept in every record and info: a judge's notes, not a store of files
MAX_METADATA_DEPTH = 32  # of dicts and lists in each other; whoever copies or writes them deep in a stack can still do so


class MisbehaviorKind(StrEnum):
    """Stable words for counting; the sentence beside it is for people."""

    CUSTODY = "custody"  # what was handed in can't be taken safely: links, specials, over a cap
    PROCESSES = "processes"  # something of the student's survived all attempts to end it
    LIMITS = "limits"  # a limit that the machine could only detect was broken in a way that ends the episode
    MACHINE_ENDED = "machine_ended"  # the machine went away while the student was in it
    MACHINE_SILENT = "machine_silent"  # it stopped answering
    MACHINE_PROTOCOL = "machine_protocol"  # it sent what no honest agent sends
    HOOK_FAILED = "hook_failed"  # a hook of the task's could not work with what the student left
    AGENT_FAILED = "agent_failed"  # its agent could not do what was asked of it, for whatever the student made of the machine


class StudentMisbehavior(Exception):
    """The student did what ends an episode with score 0; `sentence` says what, without naming anything secret."""

    def __init__(self, kind: str, sentence: str):
        super().__init__(kind, sentence)  # both, so that it survives pickling between processes
        self.kind = MisbehaviorKind(kind)
        self.sentence = sentence

    def __str__(self) -> str:
        return self.sentence


def _number(value: object) -> object:
    """Neither true nor "1" is a score: a judge that says so has a mistake worth finding."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError("a score is a number from 0 to 1")
    if not 0 <= value <= 1:  # also false for NaN, and safe for integers too large to convert
        raise ValueError("a score is from 0 to 1")
    return float(value)


class Scoring(BaseModel):
    """What a judge says: a score from 0 to 1 and its notes (JSON, bounded). NaN, text and truth values are refused.

    `stop_task` ends a task of several steps here: what would come next makes no sense after such a submission.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    score: Annotated[float, BeforeValidator(_number)]
    metadata: dict[str, Any] = Field(default_factory=dict)
    stop_task: StrictBool = False

    def __init__(self, score: float, metadata: dict[str, Any] | None = None, stop_task: bool = False):
        super().__init__(score=score, metadata={} if metadata is None else metadata, stop_task=stop_task)

    @field_validator("metadata")
    @classmethod
    def _json_and_bounded(cls, value: dict[str, Any]) -> dict[str, Any]:
        try:
            text = json.dumps(value, allow_nan=False)
        except (TypeError, ValueError, RecursionError) as error:
            raise ValueError(f"metadata must be plain JSON: {error}") from None
        if len(text) > MAX_METADATA_BYTES:
            raise ValueError(f"metadata has {len(text)} bytes as JSON, {MAX_METADATA_BYTES} are kept")
        if depth_of(value) > MAX_METADATA_DEPTH:
            raise ValueError(f"metadata is nested deeper than {MAX_METADATA_DEPTH}")
        return value


def depth_of(value: object) -> int:
    """How many dicts and lists of a JSON value lie in each other, counted without recursion; 0 for a number or a text."""
    depth, level = 0, [value]
    while level := [each for each in level if isinstance(each, dict | list | tuple)]:
        depth += 1
        level = [inner for each in level for inner in (each.values() if isinstance(each, dict) else each)]
    return depth
