"""What happened in an episode, call by call, written down as it happens, so that no crash takes it along.

``transcript.jsonl`` has one JSON object a line: a ``header``, then ``instructions`` and ``call`` as they come, and
``end`` when the episode ended. Everything in a transcript came from the student or its machine, so every text, every
line and the whole are bounded: a run of a million episodes must not be filled up by one that talks.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, PrivateAttr, ValidationError

from karotte_gym.bounded_text import bounded
from karotte_gym.errors import EvidenceError
from karotte_gym.run_files import read_bounded

__all__ = ["TRANSCRIPT", "Event", "Transcript"]

TRANSCRIPT = "transcript.jsonl"
FORMAT = 2
MAX_ARGUMENTS_CHARS = 64 * 1024  # a shell command of ordinary size, whole
MAX_EVENTS = 10_000  # beyond it only the number is kept
MAX_EVENT_BYTES = 1024 * 1024  # of one line; a longer one's texts are cut in the middle
MAX_BYTES = 64 * 1024 * 1024  # of all lines of calls; beyond it only their number is kept
MAX_FILE_BYTES = 2 * MAX_BYTES  # what is read: the author's own prompts are not counted above
_Model = TypeVar("_Model", bound=BaseModel)


class Event(BaseModel):
    """One call of the student and what it was answered. `tool` is "" when the action was no call."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    step: int
    tool: str
    arguments: str
    result: str
    exit_code: int | None = None
    duration_s: float = 0.0
    bytes_in: int = 0
    bytes_out: int = 0
    cut: bool = False
    timed_out: bool = False


class _Header(BaseModel):
    model_config = ConfigDict(extra="forbid")

    format: Literal[2]
    task_id: str
    run_id: str
    system_prompt: str


class _Instructions(BaseModel):
    model_config = ConfigDict(extra="forbid")

    text: str


class _End(BaseModel):
    model_config = ConfigDict(extra="forbid")

    events_left_out: int = Field(ge=0)


class Transcript(BaseModel):
    """All events of one episode. `read` gives one of a file, also of an episode that still goes on or was killed."""

    task_id: str
    run_id: str
    system_prompt: str
    instructions: list[str] = []
    events: list[Event] = []
    events_left_out: int = 0
    finished: bool = Field(False, description="the episode ended and said so")
    torn: bool = Field(False, description="the last line of the file is not whole and was left out")
    _write: Callable[[bytes], None] | None = PrivateAttr(None)
    _bytes: int = PrivateAttr(0)

    def keep_with(self, write: Callable[[bytes], None]) -> None:
        """From now on each line goes to `write` as it comes, beginning with the header."""
        self._write = write
        header = _Header(format=FORMAT, task_id=self.task_id, run_id=self.run_id, system_prompt=self.system_prompt)
        self._emit(_line("header", header))

    def instruct(self, text: str) -> None:
        """What the student is told next."""
        self.instructions.append(text)
        self._emit(_line("instructions", _Instructions(text=text)))

    def add(self, event: Event) -> None:
        """Keep the event, or count it when there are too many or they are too long."""
        kept = event.model_copy(update={"arguments": bounded(event.arguments, MAX_ARGUMENTS_CHARS)})
        line = _line("call", kept)
        room = MAX_EVENT_BYTES
        while len(line) > MAX_EVENT_BYTES:
            room //= 2  # in characters, of which one takes up to twelve bytes
            texts = {"arguments": bounded(kept.arguments, room), "result": bounded(kept.result, room)}
            kept = kept.model_copy(update=texts)
            line = _line("call", kept)
        if len(self.events) >= MAX_EVENTS or self._bytes + len(line) > MAX_BYTES:
            self.events_left_out += 1
            return
        self._bytes += len(line)
        self.events.append(kept)
        self._emit(line)

    def finish(self) -> None:
        """The episode has ended; idempotent."""
        if not self.finished:
            self.finished = True
            self._emit(_line("end", _End(events_left_out=self.events_left_out)))

    @classmethod
    def read(cls, path: str | Path) -> Transcript:
        """Of a ``transcript.jsonl``. EvidenceError names the line that is none; a torn last line is left out."""
        *lines, rest = read_bounded(Path(path), MAX_FILE_BYTES).split(b"\n")
        if not lines:
            raise EvidenceError(f"{path} is no transcript: it has no whole line")
        kind, values = _parsed(lines[0], path, 1)
        if kind != "header":
            raise EvidenceError(f"{path} is no transcript: it does not begin with a header")
        found = cls(**_checked(_Header, values, path, 1).model_dump(exclude={"format"}), torn=bool(rest))
        for number, line in enumerate(lines[1:], start=2):
            found._take(line, path, number)
        return found

    def as_text(self, last: int | None = None) -> str:
        """For people: instructions, then each call with its result; only the `last` events when that is given."""
        parts = [f"# {self.task_id} ({self.run_id})", *self.instructions[-1:]]
        for event in self.events[-last:] if last else self.events:
            parts.append(f"> {event.tool or '(no call)'} {event.arguments}")
            parts.append(event.result)
        return "\n".join(parts)

    def _emit(self, line: bytes) -> None:
        if self._write is not None:
            self._write(line)

    def _take(self, line: bytes, path: str | Path, number: int) -> None:
        """A line after the header."""
        kind, values = _parsed(line, path, number)
        if self.finished:
            raise EvidenceError(f"{path}, line {number}: there is something after the end")
        if kind == "call":
            self.events.append(_checked(Event, values, path, number))
        elif kind == "instructions":
            self.instructions.append(_checked(_Instructions, values, path, number).text)
        elif kind == "end":
            self.events_left_out = _checked(_End, values, path, number).events_left_out
            self.finished = True
        else:
            raise EvidenceError(f"{path}, line {number}: unknown kind {kind!r:.50}")


def _line(kind: str, content: BaseModel) -> bytes:
    """ASCII, so that no half character of a student's and no line separator of Unicode can break a line or a reader."""
    return json.dumps({"kind": kind, **content.model_dump(mode="json")}, ensure_ascii=True).encode() + b"\n"


def _parsed(line: bytes, path: str | Path, number: int) -> tuple[str, dict[str, Any]]:
    try:
        values = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise EvidenceError(f"{path}, line {number} is no JSON: {error}") from error
    if not isinstance(values, dict) or not isinstance(kind := values.pop("kind", None), str):
        raise EvidenceError(f"{path}, line {number} is no object with a kind")
    return kind, values


def _checked(model: type[_Model], values: dict[str, Any], path: str | Path, number: int) -> _Model:
    try:
        return model.model_validate(values)
    except ValidationError as error:
        first = error.errors()[0]
        name = ".".join(str(part) for part in first["loc"])
        raise EvidenceError(f"{path}, line {number}: {name}: {first['msg']}") from error
