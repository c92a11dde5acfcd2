"""`Flaw`: what was found in a scoring script, and `Script`: what the rules that find it ask about one."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from karotte_gym.validate import script_words as words
from karotte_gym.validate.script_expressions import passed
from karotte_gym.validate.script_taint import Taint
from karotte_gym.validate.script_values import CONTENT, FILES, ORIGINAL, ROOT_DATA, SUBMITTED, Value

__all__ = [
    "NAMED_PATH",
    "ORIGINAL_PATH",
    "PATTERN",
    "RUNS",
    "UNBOUNDED",
    "UNBOUNDED_LINE",
    "Flaw",
    "Script",
    "flaw",
    "is_submitted",
    "script_of",
]

ORIGINAL_PATH, NAMED_PATH = "original path", "path named by the submission"
UNBOUNDED, UNBOUNDED_LINE = "unbounded read", "unbounded line"
RUNS, PATTERN = "runs the submission", "pattern of the submission"
SHOWN_CHARS = 100


@dataclass(frozen=True, slots=True)
class Flaw:
    """`kind` is one of the six words above; `what` is the code that shows it; `does` says how, where there are several ways."""

    kind: str
    line: int
    what: str
    does: str = ""


@dataclass(frozen=True, slots=True)
class Script:
    """A script that was followed. `sized`: the functions that look at a size; `checked`: those that look at a name."""

    taint: Taint
    sized: frozenset[ast.AST]
    checked: frozenset[ast.AST]
    moved: bool  # into the submission, by os.chdir

    def callee(self, node: ast.Call) -> Value:
        """What is called."""
        return self.taint.of(node.func)

    def passed(self, node: ast.Call) -> list[Value]:
        """All that is passed."""
        return [self.taint.of(each) for each in passed(node)]

    def is_theirs(self, node: ast.Call) -> bool:
        """Whether it calls something that can be known by its name: no function of the script's, nothing that bounds itself."""
        return not self.callee(node).functions and FILES not in self.callee(node).labels

    def touches(self, node: ast.Call) -> bool:
        """Whether anything of the submission's goes into the call."""
        return any(SUBMITTED in value.labels or ORIGINAL in value.labels for value in [self.callee(node), *self.passed(node)])


def script_of(tree: ast.Module, judged: str | None) -> Script:
    """Follow a script once."""
    taint = Taint(tree, judged)
    where = taint.names.function
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    sized = {where(node) for node in ast.walk(tree) if isinstance(node, ast.Attribute) and node.attr in words.SIZE_FACTS}
    sized |= {where(node) for node in calls if taint.of(node.func).last_names & words.SIZE_FACTS}
    checked = {where(node) for node in calls if taint.of(node.func).last_names & words.LOOKING_AT_A_PATH}
    checked |= {where(node) for node in ast.walk(tree) if isinstance(node, ast.Compare) and _is_choice(node, taint)}
    moved = any(
        words.is_one_of(taint.of(node.func).names, {"os.chdir"}) and any(is_submitted(taint.of(each)) for each in passed(node))
        for node in calls
    )
    return Script(taint, frozenset(sized), frozenset(checked), moved)


def is_submitted(value: Value) -> bool:
    """Paths that mix both (a table of files from the grading data, looked up in the submission) are the submission's."""
    return SUBMITTED in value.labels or (ORIGINAL in value.labels and ROOT_DATA not in value.labels)


def flaw(kind: str, node: ast.expr | ast.stmt, does: str = "") -> Flaw:
    """With its line and its text."""
    text = ast.unparse(node)
    return Flaw(kind, node.lineno, text if len(text) <= SHOWN_CHARS else f"{text[:SHOWN_CHARS]}...", does)


def _is_choice(node: ast.Compare, taint: Taint) -> bool:
    """``name in ALLOWED``, or ``"/" in name``."""
    if not isinstance(node.ops[0], (ast.In, ast.NotIn)):
        return False
    left, right = taint.of(node.left), taint.of(node.comparators[0])
    return CONTENT in left.labels or (CONTENT in right.labels and "/" in left.constants)
