"""What happened in an episode, call by call, and how it gets to disk so that no crash leaves half of it.

Everything in a transcript came from the student or its machine, so every text is bounded before it is kept: a run of
a million episodes must not be filled up by one that talks.
"""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict

from karotte_gym.errors import ConfigError

__all__ = ["Event", "Transcript", "bounded", "make_directory", "new_run_directory", "write_json"]

MAX_ARGUMENTS_CHARS = 64 * 1024  # a shell command of ordinary size, whole
MAX_EVENTS = 10_000  # beyond it only the number is kept


def bounded(text: str, limit: int) -> str:
    """`text`, or its head and tail with the number of characters left out, `limit` characters at most."""
    if len(text) <= limit:
        return text
    mark = f"\n[... {len(text) - limit} characters left out ...]\n"
    room = max(limit - len(mark), 0)
    return (text[: room - room // 2] + mark + text[len(text) - room // 2 :])[:limit]


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


class Transcript(BaseModel):
    """All events of one episode."""

    task_id: str
    run_id: str
    system_prompt: str
    instructions: list[str] = []
    events: list[Event] = []
    events_left_out: int = 0

    def add(self, event: Event) -> None:
        """Keep the event, or count it when there are too many."""
        if len(self.events) >= MAX_EVENTS:
            self.events_left_out += 1
        else:
            arguments = bounded(event.arguments, MAX_ARGUMENTS_CHARS)
            self.events.append(event.model_copy(update={"arguments": arguments}))

    def as_text(self, last: int | None = None) -> str:
        """For people: instructions, then each call with its result; only the `last` events when that is given."""
        parts = [f"# {self.task_id} ({self.run_id})", *self.instructions[-1:]]
        for event in self.events[-last:] if last else self.events:
            parts.append(f"> {event.tool or '(no call)'} {event.arguments}")
            parts.append(event.result)
        return "\n".join(parts)


def make_directory(path: Path) -> None:
    """Make `path`, or find it there. ConfigError names it when it can't be made or nothing can be written in it."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except (OSError, ValueError) as error:  # ValueError: a NUL in the path
        raise ConfigError(f"run_dir {str(path)!r} can't be made: {getattr(error, 'strerror', None) or error}") from error
    if not os.access(path, os.W_OK | os.X_OK):
        raise ConfigError(f"run_dir {str(path)!r} is not writable; name a directory of yours")


def new_run_directory(parent: Path, run_id: str) -> Path:
    """A directory of this run's own. Refuses one that exists: an earlier run's evidence is never written over."""
    make_directory(parent)
    directory = parent / run_id
    try:
        directory.mkdir(mode=0o755)
    except FileExistsError:
        raise
    except OSError as error:
        raise ConfigError(f"run_dir {str(parent)!r}: {run_id} can't be made in it: {error.strerror}") from error
    return directory


def write_json(path: Path, value: dict[str, Any]) -> None:
    """Write atomically and durably: a reader sees the old file or the new one, also after a power cut."""
    text = json.dumps(value, indent=1, ensure_ascii=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "w") as stream:
            stream.write(text + "\n")
            stream.flush()
            os.fchmod(stream.fileno(), 0o644)
            os.fsync(stream.fileno())
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)
        raise
    directory = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)
