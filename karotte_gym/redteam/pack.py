"""Attacks as data: a JSON list of cases, each a script of calls and what must come of it.

::

    {"name": "...", "area": "...", "why": "...", "calls": [...],
     "expect": {"reward": 0.0, "misbehavior": "link", "never_in_output": ["..."], "output_matches": {"0": "regex"},
                "max_seconds": 60}}

`misbehavior`: null, the student must not be blamed; "*", it must be; ".*", either is right; else a pattern that the
reason must match. A case of a generic pack may hold ``"$SUBMISSION"`` inside a command (the first path that the task
asks for) and ``{"solution": true}`` in place of a call (the environment's own solution, without its submit).
"""

from __future__ import annotations

import json
import re
from importlib import resources
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError, field_validator

from karotte_gym.agents.scripted import load_script
from karotte_gym.errors import ConfigError
from karotte_gym.task import Task

__all__ = ["Attack", "Expectation", "generic_pack", "load_pack", "own_attacks", "solution_of"]

SUBMISSION_MARK = "$SUBMISSION"
NO_PATH = "/workdir/submission"  # for a task that asks for no file: the attack has to fail there, too
SOLUTION_MARK = {"solution": True}
PACK_ENTRIES = 'attacks: [{"name": "...", "calls": [...]}]'
MIN_SECRET_CHARS = 4  # shorter words of the grading data turn up in any output


class _Model(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Expectation(_Model):
    """What must come of an attack."""

    reward: float = 0.0
    misbehavior: str | None = ".*"
    never_in_output: list[str] = []
    output_matches: dict[int, str] = {}
    max_seconds: float = Field(default=120.0, gt=0)

    @field_validator("misbehavior")
    @classmethod
    def _a_pattern(cls, value: str | None) -> str | None:
        if value not in (None, "*"):
            re.compile(value)
        return value


class Attack(_Model):
    """One case."""

    name: str = Field(min_length=1)
    area: str = ""
    why: str = ""
    calls: list[Any]
    expect: Expectation = Expectation()


def load_pack(path: str | Path) -> list[Attack]:
    """The cases of a file. ConfigError names the file and the first case that is wrong."""
    return _parse(load_script(path, kind="pack", entries=PACK_ENTRIES), str(path))


def generic_pack() -> list[Attack]:
    """The pack that ships: attacks on any environment."""
    text = resources.files("karotte_gym.redteam").joinpath("generic.json").read_text(encoding="utf-8")
    return _parse(json.loads(text), "generic.json")


def own_attacks(task: type[Task]) -> list[Attack]:
    """The environment's ``attacks/*.json``, each a plain list of calls: must earn 0 and never show the grading data.

    But for what the attack names itself, and what the task tells the student or means it to find.
    """
    found = []
    told = "\n".join([*(step.instructions for step in task.steps), *task.known_to_student])
    for path in sorted((task.folder() / "attacks").glob("*.json")):
        calls = load_script(path)
        secrets = [word for word in _secrets(task) if word not in json.dumps(calls) and word not in told]
        found.append(Attack(name=path.stem, area="own", calls=calls, expect=Expectation(never_in_output=secrets)))
    return found


def solution_of(task: type[Task]) -> list[Any]:
    """The environment's ``solution.json``, which must earn the full score."""
    path = task.folder() / "solution.json"
    if not path.is_file():
        raise ConfigError(f"task {task.id} has no solution: write {path}, a list of calls that earns the full score")
    return load_script(path)


def fitted(attack: Attack, task: type[Task]) -> Attack:
    """The case with its marks filled in for this task, and a submit for each further step of the task."""
    calls: list[Any] = []
    for call in attack.calls:
        calls += solution_of(task)[:-1] if call == SOLUTION_MARK else [_filled(call, task)]
    calls += [{"name": "submit", "arguments": {}} for _ in task.steps[1:]]  # an episode that is over takes none of them
    return attack.model_copy(update={"calls": calls})


def _filled(call: Any, task: type[Task]) -> Any:
    if isinstance(call, str):
        return call.replace(SUBMISSION_MARK, next((path for step in task.steps for path in step.submission_paths), NO_PATH))
    if isinstance(call, dict):
        return {key: _filled(value, task) for key, value in call.items()}
    return [_filled(value, task) for value in call] if isinstance(call, list) else call


def _secrets(task: type[Task]) -> list[str]:
    words: set[str] = set()
    for path in (task.folder() / "root_data").rglob("*"):
        if path.is_file() and path.stat().st_size < 65536:
            words.update(path.read_text(encoding="utf-8", errors="replace").split())
    return sorted(word for word in words if len(word) >= MIN_SECRET_CHARS)


def _parse(value: Any, where: str) -> list[Attack]:
    try:
        attacks = TypeAdapter(list[Attack]).validate_python(value)
    except (ValidationError, re.error) as error:
        sentence = _first_of(error) if isinstance(error, ValidationError) else str(error)
        raise ConfigError(f"{where} is no attack pack: {sentence}") from error
    twice = sorted({a.name for a in attacks if sum(b.name == a.name for b in attacks) > 1})
    if twice:
        raise ConfigError(f"{where}: these names come twice: {', '.join(twice)}")
    return attacks


def _first_of(error: ValidationError) -> str:
    first = error.errors()[0]
    where = ".".join(str(part) for part in first["loc"][1:])
    return f"attack {first['loc'][0]}: {where + ': ' if where else ''}{first['msg']}" if first["loc"] else first["msg"]
