"""Where a scoring script runs what was handed in, or lets it decide what is done."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from karotte_gym.validate import script_words as words
from karotte_gym.validate.script_flaw import PATTERN, RUNS, Flaw, Script, flaw, is_submitted
from karotte_gym.validate.script_values import CONTENT, COPIED, Value

__all__ = ["runs"]

RUNS_IT = "runs what was handed in"


def runs(node: ast.AST, script: Script) -> Iterator[Flaw]:
    """A call that executes what it is given, or a place that programs are taken from."""
    if isinstance(node, (ast.Assign, ast.AugAssign)):
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        if is_submitted(script.taint.of(node.value)) and any(_runs_from(target, script) for target in targets):
            yield flaw(RUNS, node, RUNS_IT)
    if not isinstance(node, ast.Call) or not script.is_theirs(node):
        return
    callee, values = script.callee(node), script.passed(node)
    starts = words.is_one_of(callee.names, words.STARTING)
    if starts and script.moved:
        yield flaw(RUNS, node, "starts a program in the directory that was handed in")
    elif any(is_submitted(value) or COPIED in value.labels for value in values):
        yield from _by_what_is_passed(node, callee, values, script)
    yield from _by_what_is_said(node, callee, script)


def _by_what_is_passed(node: ast.Call, callee: Value, values: list[Value], script: Script) -> Iterator[Flaw]:
    loads_yaml = words.is_one_of(callee.names, words.LOADING_YAML) and not any(_is_safe(value) for value in values)
    pickled = "load" in callee.last_names and any(_allows_pickle(keyword, script) for keyword in node.keywords)
    weights = any(each.arg == "weights_only" and True in script.taint.of(each.value).constants for each in node.keywords)
    by_another = any(words.is_one_of(value.names, words.RUNNING) for value in values)  # map(eval, lines)
    if loads_yaml or pickled or by_another or (words.is_one_of(callee.names, words.RUNNING) and not weights):
        yield flaw(RUNS, node, RUNS_IT)


def _by_what_is_said(node: ast.Call, callee: Value, script: Script) -> Iterator[Flaw]:
    """By the submission's content, that is."""
    last, first = callee.last_names, script.taint.of(node.args[0]) if node.args else Value()
    if last & words.ASKING_SQL and CONTENT in first.labels:
        yield flaw(RUNS, node, f"{RUNS_IT} as SQL")
    if last & words.FORMATTING and CONTENT in callee.labels:
        yield flaw(RUNS, node, "formats by a text that was handed in")
    if words.is_one_of(callee.names, words.MATCHING) and CONTENT in first.labels:
        yield flaw(PATTERN, node)
    unpacked = is_submitted(callee) or ("unpack_archive" in last and is_submitted(first))
    by_zip = any(name.startswith("zipfile.") for name in callee.names)
    if last & words.UNPACKING and unpacked and not by_zip and not any(each.arg == "filter" for each in node.keywords):
        yield flaw(RUNS, node, "unpacks what was handed in to wherever it says")


def _runs_from(target: ast.expr, script: Script) -> bool:
    """``sys.path``, a part of it, or a variable that programs look at."""
    if isinstance(target, ast.Subscript):
        names, key = script.taint.of(target.value).names, script.taint.of(target.slice)
        return "sys.path" in names or ("os.environ" in names and bool(words.VARIABLES_THAT_RUN & set(key.constants)))
    return isinstance(target, ast.Attribute) and "sys.path" in script.taint.of(target).names


def _is_safe(value: Value) -> bool:
    return bool(value.last_names & words.SAFE_LOADERS)


def _allows_pickle(keyword: ast.keyword, script: Script) -> bool:
    return keyword.arg == "allow_pickle" and script.taint.of(keyword.value).constants != (False,)
