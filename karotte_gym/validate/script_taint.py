"""What a scoring script's values come from, by reading it: the submission, the grading data, or the original path.

Names are followed through assignments, loops, calls of the script's own functions and their results, without regard
to order: a name that ever holds something of the submission counts as submitted. Only inside a `with` it is what that
`with` opened. That errs towards finding.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

__all__ = ["ORIGINAL", "ROOT_DATA", "SUBMITTED", "Taint"]

SUBMITTED, ROOT_DATA, ORIGINAL = "submitted", "root data", "original path"
ARGUMENTS = {1: SUBMITTED, 2: ROOT_DATA}  # sys.argv of a scoring script; 3 is the result's path
RELATIVE = {"relative_to", "lstrip", "removeprefix", "strip", "split", "rsplit", "partition", "replace"}
FACTS = {"len", "isinstance", "bool", "type", "exists", "is_file", "is_dir", "isfile", "isdir", "getsize", "S_ISREG"}
OPENERS = {"open", "fdopen"}
Scope = str  # the name of the function, "" for the module
ROUNDS = 12  # a chain of more functions than that, called in reverse order, is not followed to its end


class Taint:
    """`of(expression)`: where its value comes from, a set of the three words above."""

    def __init__(self, tree: ast.Module):
        self._tree = tree
        self._functions = {node.name: node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
        self._scope_of: dict[ast.AST, Scope] = {}
        self._parent_of: dict[ast.AST, ast.AST] = {}
        self._names: dict[tuple[Scope, str], set[str]] = {}
        self._returned: dict[str, set[str]] = {}
        self._handles: set[tuple[Scope, str]] = set()
        self._place(tree, "")
        for _ in range(ROUNDS):
            before = sum(map(len, self._names.values())) + sum(map(len, self._returned.values()))
            for node in ast.walk(tree):
                self._learn(node)
            if before == sum(map(len, self._names.values())) + sum(map(len, self._returned.values())):
                break

    def scope(self, node: ast.AST) -> Scope:
        """The function that a node is in."""
        return self._scope_of[node]

    def is_handle(self, node: ast.expr) -> bool:
        """Whether it is an open file, as far as one can see: a call of `open`, or a name that was bound to one."""
        if isinstance(node, ast.Call):
            return called(node) in OPENERS
        if isinstance(node, ast.Name) and (opened := self._innermost_with(node)) is not None:
            return self.is_handle(opened)
        return isinstance(node, ast.Name) and bool({(self.scope(node), node.id), ("", node.id)} & self._handles)

    def of(self, node: ast.expr | None) -> set[str]:
        """Where the value comes from."""
        if node is None:
            return set()
        if isinstance(node, ast.Constant):
            return {ORIGINAL} if _names_workdir(node.value) else set()
        if isinstance(node, ast.Name):
            opened = self._innermost_with(node)
            return self._look_up(self.scope(node), node.id) if opened is None else self.of(opened)
        if isinstance(node, ast.Call):
            return self._of_call(node)
        if isinstance(node, ast.Subscript):
            return self._of_part(node)
        if isinstance(node, ast.JoinedStr):
            return self._of_text(node.values)
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
            return self._of_text([node.left, node.right])
        if isinstance(node, (ast.Compare, ast.Lambda)):
            return set()
        return set().union(*(self.of(child) for child in ast.iter_child_nodes(node) if isinstance(child, ast.expr)))

    def _of_call(self, node: ast.Call) -> set[str]:
        name = called(node)
        if name in FACTS:
            return set()
        arguments = set().union(*(self.of(argument) for argument in passed(node)))
        if isinstance(node.func, ast.Name) and name in self._functions:
            return self._returned.get(name, set())
        receiver = self.of(node.func.value) if isinstance(node.func, ast.Attribute) else set()
        return (receiver | arguments) - ({ORIGINAL} if name in RELATIVE else set())

    def _of_part(self, node: ast.Subscript) -> set[str]:
        if is_argv(node.value):
            index = node.slice.value if isinstance(node.slice, ast.Constant) else None
            return {ARGUMENTS[index]} if isinstance(index, int) and index in ARGUMENTS else set()
        return self.of(node.value) - ({ORIGINAL} if isinstance(node.slice, ast.Slice) else set())

    def _of_text(self, parts: list[ast.expr]) -> set[str]:
        """Only a text that *begins* with /workdir is the original path."""
        labels = [self.of(part.value if isinstance(part, ast.FormattedValue) else part) for part in parts]
        return set().union(*labels[:1], set().union(*labels[1:]) - {ORIGINAL})

    def _innermost_with(self, name: ast.Name) -> ast.expr | None:
        """What the name is in the `with` around it: many scripts call every open file `stream`."""
        node: ast.AST = name
        while (parent := self._parent_of.get(node)) is not None and not isinstance(parent, ast.FunctionDef):
            if isinstance(parent, (ast.With, ast.AsyncWith)) and node in parent.body:
                for item in reversed(parent.items):
                    if isinstance(item.optional_vars, ast.Name) and item.optional_vars.id == name.id:
                        return item.context_expr
            node = parent
        return None

    def _look_up(self, scope: Scope, name: str) -> set[str]:
        own = self._names.get((scope, name))
        return self._names.get(("", name), set()) if own is None else own

    def _learn(self, node: ast.AST) -> None:
        if isinstance(node, ast.Assign):
            for target in node.targets:
                self._bind(target, node.value)
        elif isinstance(node, (ast.AnnAssign, ast.NamedExpr, ast.AugAssign)):
            self._bind(node.target, node.value)
        elif isinstance(node, (ast.For, ast.comprehension)):
            self._bind(node.target, node.iter)
        elif isinstance(node, ast.withitem) and node.optional_vars is not None:
            self._bind(node.optional_vars, node.context_expr)
        elif isinstance(node, ast.Return):
            self._returned.setdefault(self.scope(node), set()).update(self.of(node.value))
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in self._functions:
            self._pass(node, self._functions[node.func.id])

    def _bind(self, target: ast.expr, value: ast.expr | None) -> None:
        if isinstance(target, (ast.Tuple, ast.List)) and value is not None:
            for index, element in enumerate(target.elts):
                self._bind_to(element, self._of_element(value, index))
        else:
            self._bind_to(target, self.of(value))
        if value is not None and isinstance(target, ast.Name) and self.is_handle(value):
            self._handles.add((self.scope(target), target.id))

    def _of_element(self, value: ast.expr, index: int) -> set[str]:
        if isinstance(value, (ast.Tuple, ast.List)) and index < len(value.elts):
            return self.of(value.elts[index])
        if is_argv(value):
            return {ARGUMENTS[index]} if index in ARGUMENTS else set()
        if isinstance(value, ast.Subscript) and is_argv(value.value) and isinstance(value.slice, ast.Slice):
            first = value.slice.lower.value if isinstance(value.slice.lower, ast.Constant) else 0
            place = index + (first if isinstance(first, int) else 0)
            return {ARGUMENTS[place]} if place in ARGUMENTS else set()
        return self.of(value)

    def _bind_to(self, target: ast.expr, labels: set[str]) -> None:
        for node in ast.walk(target):
            if isinstance(node, ast.Name):
                self._names.setdefault((self.scope(node), node.id), set()).update(labels)

    def _pass(self, call: ast.Call, function: ast.FunctionDef) -> None:
        names = [argument.arg for argument in [*function.args.posonlyargs, *function.args.args]]
        given: list[tuple[str, ast.expr]] = list(zip(names, call.args, strict=False))
        given += [(keyword.arg, keyword.value) for keyword in call.keywords if keyword.arg is not None]
        for index, argument in enumerate(call.args):
            if isinstance(argument, ast.Starred) and isinstance(argument.value, ast.Subscript):
                for offset, name in enumerate(names[index:]):
                    self._bind_name(function.name, name, self._of_element(argument.value, offset))
        for name, value in given:
            if not isinstance(value, ast.Starred):
                self._bind_name(function.name, name, self.of(value))

    def _bind_name(self, scope: Scope, name: str, labels: set[str]) -> None:
        self._names.setdefault((scope, name), set()).update(labels)

    def _place(self, node: ast.AST, scope: Scope) -> None:
        self._scope_of[node] = scope
        inner = node.name if isinstance(node, ast.FunctionDef) else scope
        for child in ast.iter_child_nodes(node):
            self._parent_of[child] = node
            self._place(child, inner)


def called(node: ast.Call) -> str:
    """The last part of the called name: ``read`` of ``file.read()``."""
    function = node.func
    return function.attr if isinstance(function, ast.Attribute) else function.id if isinstance(function, ast.Name) else ""


def full_name(node: ast.expr) -> str:
    """``os.path.join`` of that expression, "" of one that is no dotted name."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute) and (before := full_name(node.value)):
        return f"{before}.{node.attr}"
    return ""


def passed(node: ast.Call) -> Iterator[ast.expr]:
    """All that is passed."""
    for argument in node.args:
        yield argument.value if isinstance(argument, ast.Starred) else argument
    for keyword in node.keywords:
        yield keyword.value


def is_argv(node: ast.expr) -> bool:
    """``sys.argv``, or ``argv`` from ``from sys import argv``."""
    return full_name(node) in ("sys.argv", "argv")


def _names_workdir(value: object) -> bool:
    text = value.decode("utf-8", "replace") if isinstance(value, bytes) else value
    return isinstance(text, str) and (text == "/workdir" or text.startswith("/workdir/"))
