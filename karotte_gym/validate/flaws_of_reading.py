"""Where a scoring script reads from the wrong place, or more than a right answer can have."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from karotte_gym.validate import script_words as words
from karotte_gym.validate.script_flaw import (
    NAMED_PATH,
    ORIGINAL_PATH,
    UNBOUNDED,
    UNBOUNDED_LINE,
    Flaw,
    Script,
    flaw,
    is_submitted,
)
from karotte_gym.validate.script_values import CONTENT, HANDLE, ORIGINAL, Value

__all__ = ["named_paths", "original_paths", "unbounded"]

NO_BOUND = 256 * 1024 * 1024  # bytes: what a scoring script may use of memory unless its judge says otherwise
BOUND_AT = {"os.read": 1, "karotte_grading.read_submitted": 1, "read_submitted": 1}  # which argument is the bound


def original_paths(node: ast.AST, script: Script) -> Iterator[Flaw]:
    """A call that opens or looks at a path beginning with /workdir."""
    if not isinstance(node, ast.Call) or not script.is_theirs(node):
        return
    callee = script.callee(node)
    opens = callee.last_names & words.OPENING or words.is_one_of(callee.names, words.STARTING | words.LOADING_PATHS)
    if opens and any(ORIGINAL in value.labels for value in [callee, *script.passed(node)]):
        yield flaw(ORIGINAL_PATH, node)


def named_paths(node: ast.AST, script: Script) -> Iterator[Flaw]:
    """A call that opens a path with something in it that the submission says."""
    if not isinstance(node, ast.Call) or not script.is_theirs(node) or script.taint.names.function(node) in script.checked:
        return
    callee = script.callee(node)
    opens = callee.last_names & words.READING_A_PATH or words.is_one_of(callee.names, words.LOADING_PATHS)
    if opens and any(_says_path(value) for value in [callee, *map(script.taint.of, node.args[:1])]):
        yield flaw(NAMED_PATH, node)


def unbounded(node: ast.AST, script: Script) -> Iterator[Flaw]:
    """A read to the end. What was opened from the grading data is the author's own, and as long as it is."""
    if isinstance(node, (ast.For, ast.AsyncFor, ast.comprehension)):
        if _is_open(script.taint.of(node.iter)) and script.taint.names.function(node.iter) not in script.sized:
            yield flaw(UNBOUNDED_LINE, node.iter)
        return
    if isinstance(node, (ast.expr, ast.Assign)) and script.taint.names.function(node) in script.sized:
        return
    if isinstance(node, ast.Starred) and isinstance(node.ctx, ast.Load) and _is_open(script.taint.of(node.value)):
        yield flaw(UNBOUNDED, node)  # [*file]
    if (
        isinstance(node, ast.Assign)
        and _is_open(script.taint.of(node.value))
        and isinstance(node.targets[0], (ast.Tuple, ast.List))
    ):
        yield flaw(UNBOUNDED, node)  # head, *rest = file
    if not isinstance(node, ast.Call) or not script.is_theirs(node):
        return
    callee, first = script.callee(node), [script.taint.of(each) for each in node.args[:1]]
    if _reads_all(node, callee, script) or any(_loads(callee, value) for value in first) or _repeats(node, callee, first):
        yield flaw(UNBOUNDED, node)


def _reads_all(node: ast.Call, callee: Value, script: Script) -> bool:
    """By a method of what is open, or of a path."""
    if any(words.is_one_of(callee.names, {name}) and _is_too_much(node.args[at:], script) for name, at in BOUND_AT.items()):
        return bool(node.args) and is_submitted(script.taint.of(node.args[0]))
    if words.is_one_of(callee.names, words.ENDLESS_LOADERS) or "extractall" in callee.last_names:
        return script.touches(node)
    if not callee.last_names & words.WHOLE or not is_submitted(callee) or _made_in_memory(callee):
        return False
    sizes = [*node.args, *(keyword.value for keyword in node.keywords if keyword.arg in ("size", "n"))]
    return not callee.last_names & {"read", "readline"} or not sizes or _is_too_much(sizes, script)


def _loads(callee: Value, value: Value) -> bool:
    """By something that is given what is open, or its path, or what it holds in a smaller form."""
    if _made_in_memory(value):
        return False
    of_open = words.is_one_of(callee.names, words.LOADING_FILES) or "join" in callee.last_names
    of_any = words.is_one_of(callee.names, words.LOADING_PATHS | words.DECOMPRESSING)
    return (of_open and _is_open(value)) or (of_any and is_submitted(value))


def _repeats(node: ast.Call, callee: Value, first: list[Value]) -> bool:
    """``iter(file.readline, "")``."""
    repeated = [each for each in first if each.last_names & words.WHOLE and is_submitted(each)]
    return "iter" in callee.names and len(node.args) == 2 and bool(repeated)


def _is_too_much(sizes: list[ast.expr], script: Script) -> bool:
    """No bound, minus one, or more than there is memory; a size that isn't known is believed."""
    known = [each for size in sizes[:1] for each in script.taint.of(size).constants]
    return any(each is None or (isinstance(each, int) and (each < 0 or each >= NO_BOUND)) for each in known)


def _is_open(value: Value) -> bool:
    return HANDLE in value.labels and is_submitted(value)


def _says_path(value: Value) -> bool:
    return CONTENT in value.labels and HANDLE not in value.labels and not _made_in_memory(value)


def _made_in_memory(value: Value) -> bool:
    return any(made in name for name in value.names for made in words.IN_MEMORY)
