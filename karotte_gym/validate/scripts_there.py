"""Whether the task brings what proves it: a solution, and cheats of its own that must not pay.

A cheat that does nothing earns nothing, and proves nothing about the grader.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from karotte_gym.agents.scripted import load_script
from karotte_gym.errors import ConfigError
from karotte_gym.tools.toolset import SUBMIT, Toolset
from karotte_gym.validate.bench import Bench, name_of
from karotte_gym.validate.finding import Finding, fail, warn

__all__ = ["ENOUGH_ATTACKS", "check_attack_files", "check_solution_file"]

ENOUGH_ATTACKS = 5
CALLS = '[{"name": "bash", "arguments": {"command": "..."}}, {"name": "submit", "arguments": {}}]'


def check_solution_file(bench: Bench) -> Iterator[Finding]:
    """There is a solution, its calls are calls of the task's tools, and it hands in every step."""
    try:
        calls = bench.solution
    except ConfigError as error:
        yield fail(str(error), f"write solution.json: {CALLS}")
        return
    yield from (fail(f"solution.json: {sentence}", "mend the call") for sentence in _bad_calls(bench, calls))
    submits = sum(name_of(call) == "submit" for call in calls)
    if submits != len(bench.task_class.steps):
        found = f"solution.json submits {submits} times, the task has {len(bench.task_class.steps)} steps"
        yield fail(found, "end each step of the solution with a submit")


def check_attack_files(bench: Bench) -> Iterator[Finding]:
    """Every attack file is a list with a submit in it, and there are some."""
    paths = sorted((bench.folder / "attacks").glob("*.json"))
    seen: dict[str, Path] = {}
    for path in paths:
        try:
            calls = load_script(path)
        except ConfigError as error:
            yield fail(f"attacks/{path.name}: {error}", f"write a list of calls: {CALLS}")
            continue
        if not any(name_of(call) == "submit" for call in calls):
            yield fail(f"attacks/{path.name} never submits, so that it earns 0 whatever it does", "end it with a submit")
        elif not _does_anything(bench, calls):
            fix = "call tools of the task with arguments that fit them, before the last submit"
            yield warn(f"attacks/{path.name} does nothing before it submits, so that it earns 0 whatever the grader does", fix)
        elif (same := seen.setdefault(json.dumps(calls), path)) is not path:
            yield warn(f"attacks/{path.name} makes the same calls as attacks/{same.name}", "let each file be another attack")
    yield from _never_played(bench)
    if not paths:
        yield fail("the task has no attacks/*.json", "write down how you would cheat, a file each; see docs/validation.md")
    elif len(paths) < ENOUGH_ATTACKS:
        yield warn(f"{len(paths)} attacks of the task's own", f"write at least {ENOUGH_ATTACKS}; see docs/validation.md")


def _never_played(bench: Bench) -> Iterator[Finding]:
    top = bench.folder / "attacks"
    for path in sorted(path for path in top.rglob("*.json*") if path.is_file()):
        if path.suffix != ".json" or path.parent != top:
            fix = "move it to attacks/NAME.json, a list of calls; only those are attacks"
            yield warn(f"{path.relative_to(bench.folder)} is never played", fix)


def _does_anything(bench: Bench, calls: list[Any]) -> bool:
    """Whether a tool takes any call before the submit that ends the episode; words said with submit may be an attack."""
    try:
        tools = Toolset.of_task(bench.task_class)
    except ConfigError:
        return True  # a tool that does not load is named by the check of the tools
    submits = 0
    for call in calls:
        parsed = tools.parse(call)
        if not isinstance(parsed, str) and (parsed.name != SUBMIT or parsed.arguments.get("message")):
            return True
        submits += name_of(call) == SUBMIT
        if submits == len(bench.task_class.steps):
            break
    return False


def _bad_calls(bench: Bench, calls: list[Any]) -> Iterator[str]:
    """A scripted student may write nonsense, a solution may not."""
    try:
        tools = Toolset.of_task(bench.task_class)
    except ConfigError:
        return  # a tool that does not load is named by the check of the tools
    for number, call in enumerate(calls, 1):
        if isinstance(wrong := tools.parse(call), str):
            yield f"call {number} is none: {wrong.splitlines()[0]}"
