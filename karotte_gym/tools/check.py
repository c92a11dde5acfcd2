"""What is wrong, or worth a second look, with a task's own tools: every mistake at once, each with its file and line.

Making an environment stops at the first mistake. This goes on, looks at files that no task names as well, and reads
the source for what runs without a complaint and is a way to root, or fails in the machine alone.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from karotte_gym.errors import ConfigError
from karotte_gym.tools.definition import Definition
from karotte_gym.tools.own import load_tool
from karotte_gym.tools.own_files import package_of, tool_files
from karotte_gym.tools.own_machine import MachineTool
from karotte_gym.tools.schemas import parameters
from karotte_gym.tools.toolset import Toolset

if TYPE_CHECKING:
    from karotte_gym.task import Task

__all__ = ["ToolFinding", "check_tools"]

_IN_MACHINE = frozenset({*sys.stdlib_module_names, "karotte_gym"})


@dataclass(frozen=True, slots=True)
class ToolFinding:
    """An ``error`` keeps the environment from being made; a ``warning`` is for the author to judge."""

    level: Literal["error", "warning"]
    place: str  # file and line, "" where the sentence names it
    sentence: str


def check_tools(task: type[Task]) -> list[ToolFinding]:
    """All findings, in the order of the files; an empty list when there are none. Imports the tools, starts nothing."""
    try:
        files = tool_files(task.folder())
    except ConfigError as error:
        return [ToolFinding("error", "", str(error))]
    package = package_of(task.__module__, task.folder())
    found = [finding for file in files.values() for finding in _of_file(file, package, named=file.stem in task.tools)]
    if not any(finding.level == "error" for finding in found):
        found += _of_configuration(task)
    return found


def _of_file(file: Path, package: str, *, named: bool) -> Iterator[ToolFinding]:
    try:
        tool = load_tool(file, package)
    except ConfigError as error:
        yield ToolFinding("error", "", str(error))
        return
    if not named:
        yield ToolFinding("warning", f"{file}:1", f"no student gets it: add {tool.name!r} to the tools of the task")
    yield from _undescribed(tool, file)
    try:
        tree = ast.parse(file.read_bytes())
    except (SyntaxError, ValueError, OSError, RecursionError) as error:
        yield ToolFinding("error", f"{file}:{getattr(error, 'lineno', None) or 1}", f"can't be looked through: {error}")
        return
    yield from _uses_of_root(tree, file)
    if isinstance(tool, MachineTool):
        yield from _foreign_imports(tree, file)
        yield from _uses_of_the_package(tree, file)


def _undescribed(tool: Definition, file: Path) -> Iterator[ToolFinding]:
    for name, facts in parameters(tool.arguments)["properties"].items():
        if not facts.get("description"):
            sentence = f"the parameter {name} has no description: add a line to Args: in the docstring"
            yield ToolFinding("warning", f"{file}:1", sentence)


def _uses_of_root(tree: ast.AST, file: Path) -> Iterator[ToolFinding]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and node.attr == "as_root":
            sentence = "acts as root: nothing that the student chose, a path least of all, may decide what it does"
            yield ToolFinding("warning", f"{file}:{node.lineno}", sentence)


def _foreign_imports(tree: ast.AST, file: Path) -> Iterator[ToolFinding]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [node.module or "." * node.level] if not node.level else ["." * node.level]
        else:
            continue
        for name in names:
            if name.partition(".")[0] not in _IN_MACHINE:
                sentence = f"imports {name}, which the machine may not have: it gets this file alone, and Python's own library"
                yield ToolFinding("warning", f"{file}:{node.lineno}", sentence)


def _uses_of_the_package(tree: ast.AST, file: Path) -> Iterator[ToolFinding]:
    """In the machine a stand-in has its name, so that the decorator can stay above the function."""
    for node in ast.walk(tree):
        names: list[str] = []
        if isinstance(node, ast.ImportFrom) and not node.level and (node.module or "").partition(".")[0] == "karotte_gym":
            names = [alias.name for alias in node.names if (node.module, alias.name) != ("karotte_gym", "tool")]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names if alias.name.startswith("karotte_gym.")]
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "karotte_gym":
            names = [node.attr] if node.attr != "tool" else []
        for name in names:
            sentence = f"uses {name} of karotte_gym, of which the machine has the decorator tool and no more"
            yield ToolFinding("warning", f"{file}:{getattr(node, 'lineno', 1)}", sentence)


def _of_configuration(task: type[Task]) -> Iterator[ToolFinding]:
    try:
        Toolset.of_task(task).configure(task().configure_tools())
    except ConfigError as error:
        yield ToolFinding("error", "", str(error))
