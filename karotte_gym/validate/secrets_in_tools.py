"""Whether a tool of the task's own gives the answer away: by its source, or by what it says when it is called.

A tool that runs in the machine lies there as a file, which whoever runs it can read. One that runs on the host does not,
but what it holds it may say; those that need no argument are called, in an episode of their own.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from karotte_gym.tools.definition import Definition
from karotte_gym.tools.own import load_tool
from karotte_gym.tools.own_files import package_of, tool_files
from karotte_gym.tools.own_machine import MachineTool
from karotte_gym.validate.bench import SEED, Bench
from karotte_gym.validate.finding import Finding, ok, warn
from karotte_gym.validate.haystack import Disguises, search
from karotte_gym.validate.hidden import Hidden
from karotte_gym.validate.needles import without_known
from karotte_gym.validate.secrets_in_data import said_of

__all__ = ["check_secrets_in_tools"]


def check_secrets_in_tools(bench: Bench) -> Iterator[Finding]:
    """Every tool that the task names and that is a file of its own."""
    own = [load_tool(path, package_of(bench.task_class.__module__, bench.folder)) for path in _files(bench)]
    if not own:
        yield ok("the task has no tools of its own")
        return
    disguises = Disguises(without_known(Hidden.of(bench, None, {}).at(0), bench.task_class))
    for tool in own:
        source = (bench.folder / "tools" / f"{tool.name}.py").read_bytes()
        found = list(said_of(search(disguises, source, f"tools/{tool.name}.py")))
        if isinstance(tool, MachineTool):
            yield from found
        else:
            yield from (
                warn(finding.found, "see that the tool never says it; better, keep it in root_data") for finding in found
            )
    for name, said in _answers(bench, [tool.name for tool in own if _needs_nothing(tool)]):
        yield from said_of(search(disguises, said.encode("utf-8", "replace"), f"what the tool {name} says"))


def _files(bench: Bench) -> Iterator[Path]:
    files = tool_files(bench.folder)
    yield from (files[name] for name in bench.task_class.tools if name in files)


def _needs_nothing(tool: Definition) -> bool:
    return not any(field.is_required() for field in tool.arguments.model_fields.values())


def _answers(bench: Bench, names: list[str]) -> Iterator[tuple[str, str]]:
    """What each says when it is called first thing."""
    if not names:
        return
    with bench.env() as env:
        env.reset(seed=SEED)
        for name in names:
            observation, _, terminated, truncated, _ = env.step({"name": name, "arguments": {}})
            yield name, str(observation["content"])
            if terminated or truncated:
                return
