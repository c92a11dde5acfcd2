"""What a scoring script must not do with a submission, found in its text: each flaw with its line.

- read the path at which the student wrote instead of the copy: in the grader machine nothing is there, and in the
  student's own machine whatever the student left there after custody is;
- open a path that the submission names: it names the answer's;
- read without a bound: a submission is as large as custody allows;
- run it, in any of the ways in which reading is running (`eval`, `pickle`, an import): the grader is root and holds the
  answers.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache

from karotte_gym.validate import script_words as words
from karotte_gym.validate.flaws_of_reading import named_paths, original_paths, unbounded
from karotte_gym.validate.flaws_of_running import runs
from karotte_gym.validate.script_flaw import (
    Flaw,
    Script,
    script_of,
)
from karotte_gym.validate.script_values import CONTENT

__all__ = ["Reading", "flaws_of", "read"]

RULES: tuple[Callable[[ast.AST, Script], Iterator[Flaw]], ...] = (original_paths, named_paths, unbounded, runs)


@dataclass(frozen=True, slots=True)
class Reading:
    """What reading a script gave. `sees_submission`: whether it is known where it takes the submission from."""

    flaws: tuple[Flaw, ...]
    sees_submission: bool


@lru_cache(maxsize=32)  # three checks ask
def read(source: bytes | str, judged: str | None = None) -> Reading:
    """Of a whole script, or of the function `judged` and those that it calls; SyntaxError for what is no Python."""
    tree = ast.parse(source)
    script = script_of(tree, judged)
    nodes = list(ast.walk(tree)) if judged is None else list(_of_function(tree, judged))
    found = {flaw for node in nodes for rule in RULES for flaw in rule(node, script)}
    flaws = tuple(sorted(found, key=lambda flaw: (flaw.line, flaw.kind, flaw.what)))
    return Reading(flaws, any(_looks(node, script) for node in nodes))


def flaws_of(source: bytes | str) -> list[Flaw]:
    """All flaws of a script, by line."""
    return list(read(source).flaws)


def _looks(node: ast.AST, script: Script) -> bool:
    """What the submission says, or a call that opens, reads or starts something of it."""
    if isinstance(node, ast.expr) and CONTENT in script.taint.of(node).labels:
        return True
    if not isinstance(node, ast.Call) or not script.touches(node):
        return False
    names, last = script.callee(node).names, script.callee(node).last_names
    return bool(last & (words.OPENING | words.READING | {"list"})) or words.is_one_of(
        names, words.RUNNING | words.LOADING_FILES | words.LOADING_PATHS
    )


def _of_function(tree: ast.Module, judged: str) -> Iterator[ast.AST]:
    """All that stands in the function, and in the functions and classes that are named in what stands there."""
    named = [node for node in ast.walk(tree) if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef))]
    wanted = {judged.rpartition(".")[2]}
    found: list[ast.AST] = []
    while new := [node for node in named if node.name in wanted and node not in found]:
        found += new
        inside = [node for each in new for node in ast.walk(each)]
        wanted |= {node.id for node in inside if isinstance(node, ast.Name)}
        wanted |= {node.attr for node in inside if isinstance(node, ast.Attribute)}
    yield from dict.fromkeys(node for each in found for node in ast.walk(each))
