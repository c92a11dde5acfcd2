"""What a scoring script's values come from, by reading it: the submission, the grading data, or the original path.

Values are followed through assignments, loops, calls of the script's own functions and their results, attributes and
containers, until nothing new is learnt. Arguments are known by their places: ``sys.argv`` is script, submission, root
data, result, and a function's are what `FunctionJudge` gives it. That errs towards finding.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import replace

from karotte_gym.validate.script_expressions import CONTEXT, KNOWN_ATTRIBUTES, Expressions
from karotte_gym.validate.script_names import FUNCTIONS
from karotte_gym.validate.script_shapes import captured, class_fields, is_static, spread
from karotte_gym.validate.script_values import COPIED, FILES, NOTHING, ORIGINAL, SUBMITTED, Value, either, iterated, sequence

__all__ = ["Taint"]

VIEW = Value(frozenset({SUBMITTED, FILES}))
ADDING = {"append", "add", "extend", "insert", "update", "setdefault", "appendleft"}
COPYING = {"copy", "copy2", "copyfile", "copytree", "move", "symlink", "link"}
WRITING = {"write", "write_text", "write_bytes", "writelines", "symlink_to", "hardlink_to"}
ROUNDS = 12  # a chain of more functions than that, called in reverse order, is not followed to its end
Functions = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda


class Taint(Expressions):
    """`judged` names a `FunctionJudge`'s function; without it the whole is a script."""

    def __init__(self, tree: ast.Module, judged: str | None = None):
        super().__init__(tree)
        self._imported = {
            alias.asname or alias.name.partition(".")[0]
            for node in ast.walk(tree)
            if isinstance(node, (ast.Import, ast.ImportFrom))
            for alias in node.names
        }
        for _ in range(ROUNDS):
            before = self._known()
            self._remembered = {}
            for node in ast.walk(tree):
                self._learn(node)
                if isinstance(node, ast.FunctionDef) and judged is not None and node.name == judged.rpartition(".")[2]:
                    self._judge(node)
            if before == self._known():
                break
        self._remembered = {}

    def _known(self) -> tuple[object, ...]:
        return self.names.changes, len(self._copied_to), dict(self._fields), dict(self._returned), dict(self._given)

    def _learn(self, node: ast.AST) -> None:
        if isinstance(node, ast.Assign):
            for target in node.targets:
                self._bind(target, self.of(node.value), node)
        elif isinstance(node, (ast.AnnAssign, ast.NamedExpr)) and node.value is not None:
            self._bind(node.target, self.of(node.value), node)
        elif isinstance(node, ast.AugAssign):
            self._bind(node.target, replace(self.of(node.value).without(ORIGINAL), constants=()), node, adds=True)
        elif isinstance(node, (ast.For, ast.AsyncFor, ast.comprehension)):
            self._bind(node.target, iterated(self.of(node.iter)), node)
        elif isinstance(node, (ast.With, ast.AsyncWith)):
            for item in node.items:
                if item.optional_vars is not None:
                    self._bind(item.optional_vars, self.of(item.context_expr), node)
        elif isinstance(node, ast.Match):
            for case in node.cases:
                for place, name, value in captured(case.pattern, self.of(node.subject)):
                    self.names.bind(name, value, case, place)
        elif isinstance(node, ast.ExceptHandler) and node.name is not None:
            self.names.bind(node.name, NOTHING, node, node)
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            self._import(node)
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            self._define(node)
        elif isinstance(node, (ast.Return, ast.Yield, ast.YieldFrom)):
            function = self.names.function(node)
            self._returned[function] = either([self._returned.get(function, NOTHING), self.of(node.value)])
        if isinstance(node, FUNCTIONS):
            self._default(node)
        if isinstance(node, ast.Call):
            self._pass(node)

    def _bind(self, target: ast.expr, value: Value, place: ast.AST, *, adds: bool = False) -> None:
        if isinstance(target, (ast.Tuple, ast.List)):
            for element, part in zip(target.elts, spread(value, target.elts), strict=True):
                self._bind(element.value if isinstance(element, ast.Starred) else element, part, place, adds=adds)
        elif isinstance(target, ast.Name):
            self.names.bind(target.id, value, place, target, adds=adds)
        elif isinstance(target, ast.Attribute):
            if not self._is_imported(target):
                self._fields[target.attr] = either([self._fields.get(target.attr, NOTHING), value])
        elif isinstance(target, ast.Subscript):
            self._add(target.value, value, target)

    def _add(self, container: ast.expr, value: Value, place: ast.AST) -> None:
        """Something is put into a container of the script's own."""
        inside = Value(value.labels, value.names, functions=value.functions)
        if self._is_imported(container):
            return
        if isinstance(container, ast.Name):
            self.names.bind(container.id, inside, place, container, adds=True)
        elif isinstance(container, ast.Attribute):
            self._fields[container.attr] = either([self._fields.get(container.attr, NOTHING), inside])

    def _is_imported(self, node: ast.expr) -> bool:
        while isinstance(node, (ast.Attribute, ast.Subscript)):
            node = node.value
        return isinstance(node, ast.Name) and node.id in self._imported

    def _import(self, node: ast.Import | ast.ImportFrom) -> None:
        for alias in node.names:
            if isinstance(node, ast.ImportFrom):
                full, name = f"{node.module}.{alias.name}", alias.asname or alias.name
            else:
                name = alias.asname or alias.name.partition(".")[0]
                full = alias.name if alias.asname else name
            value = KNOWN_ATTRIBUTES.get(full, Value(names=frozenset({full})))
            self.names.bind(name, value, node, alias)

    def _define(self, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> None:
        if not self._is_method(node):
            self.names.bind(node.name, Value(functions=frozenset({node})), node, node)
        if isinstance(node, ast.ClassDef):
            for name, value in class_fields(node):
                known = [self._fields.get(name, NOTHING), self.of(value)]
                self._fields[name] = either(known)

    def _default(self, node: Functions) -> None:
        places = [*node.args.posonlyargs, *node.args.args]
        defaults = zip(places[len(places) - len(node.args.defaults) :], node.args.defaults, strict=True)
        for argument, default in [*defaults, *zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True)]:
            self._give(node, argument, self.of(default), counts=False)
        if self._is_method(node) and places:
            above = self.names.parent_of[node]
            self._give(node, places[0], Value(instances=frozenset({above})), counts=False)

    def _pass(self, call: ast.Call) -> None:
        callee, arguments = self.of(call.func), self._arguments(call)
        named = [(each.arg, self.of(each.value)) for each in call.keywords if each.arg is not None]
        for unpacked in (each.value for each in call.keywords if each.arg is None):
            named += self._unpacked(unpacked)
        functions = self.functions_of(callee)
        if "add_argument" in callee.last_names and arguments:
            self._options[call] = tuple(each for each in arguments[0].constants if isinstance(each, str))
        if callee.last_names & ADDING and isinstance(call.func, ast.Attribute) and not functions:
            self._add(call.func.value, either(arguments[-1:]), call)
        for function in functions:
            self._call(function, arguments, named, loose=callee.loose or self._is_open_ended(call))
        if not functions:
            self._copy(call, callee, arguments)
            every = [*arguments, *(value for _, value in named)]
            others = either(iterated(each) for each in every if not each.functions)
            for function in (function for each in every for function in each.functions):
                self._call(function, [replace(others, elements=None, constants=())], [], loose=True)

    def _copy(self, call: ast.Call, callee: Value, arguments: list[Value]) -> None:
        """``shutil.copy(submitted, place)``, ``place.write_text(submitted)``, ``open(place, "w").write(submitted)``."""
        if not arguments or SUBMITTED not in arguments[0].labels:
            return
        place: ast.expr | None = None
        if callee.last_names & COPYING and len(call.args) > 1:
            place = call.args[1]
        elif callee.last_names & WRITING and isinstance(call.func, ast.Attribute):
            place = self._opened(call.func.value)
        if place is not None:
            self._copied_to.update(text for text in self.of(place).constants if isinstance(text, str) and text)
            names = [node for node in ast.walk(place) if isinstance(node, ast.Name) and not self._is_imported(node)]
            for name in (name for name in names if self.names.look_up(name) is not None):
                self.names.bind(name.id, Value(frozenset({COPIED})), call, name, adds=True)

    def _opened(self, written: ast.expr) -> ast.expr:
        """The path of what is written to: that of the `open` before it or around it, or itself."""
        opening = self._around(written) if isinstance(written, ast.Name) else written
        if isinstance(opening, ast.Call) and "open" in self.of(opening.func).last_names:
            return opening.args[0] if opening.args and isinstance(opening.func, ast.Name) else opening.func
        return written

    def _around(self, name: ast.Name) -> ast.expr:
        """What the name is by the `with` around it."""
        node: ast.AST | None = name
        while node is not None:
            for item in node.items if isinstance(node, (ast.With, ast.AsyncWith)) else ():
                if isinstance(item.optional_vars, ast.Name) and item.optional_vars.id == name.id:
                    return item.context_expr
            node = self.names.parent_of.get(node)
        return name

    def _is_open_ended(self, call: ast.Call) -> bool:
        return any(isinstance(each, ast.Starred) and self.of(each.value).elements is None for each in call.args)

    def _unpacked(self, node: ast.expr) -> Iterator[tuple[str, Value]]:
        if isinstance(node, ast.Dict):
            for key, value in zip(node.keys, node.values, strict=True):
                yield from ((name, self.of(value)) for name in self.of(key).constants if isinstance(name, str))

    def _call(self, function: ast.AST, arguments: list[Value], named: list[tuple[str, Value]], *, loose: bool) -> None:
        if isinstance(function, ast.ClassDef):
            self._construct(function, arguments, named)
            return
        assert isinstance(function, FUNCTIONS)
        places = [*function.args.posonlyargs, *function.args.args]
        if self._is_method(function) and not is_static(function):
            places = places[1:]
        by_name = {each.arg: each for each in [*places, *function.args.kwonlyargs]}
        pairs = [(by_name[name], value) for name, value in named if name in by_name]
        if loose:
            whole = replace(either(arguments), elements=None, constants=())
            pairs += [(place, whole) for place in places]
        else:
            pairs += zip(places, arguments, strict=False)
        if function.args.vararg is not None:
            pairs.append((function.args.vararg, sequence(arguments[len(places) :])))
        if function.args.kwarg is not None:
            pairs.append((function.args.kwarg, replace(either(value for _, value in named), elements=None, constants=())))
        for place, value in pairs:
            self._give(function, place, value)

    def _construct(self, made: ast.ClassDef, arguments: list[Value], named: list[tuple[str, Value]]) -> None:
        above = [base for each in made.bases for base in self.of(each).functions if isinstance(base, ast.ClassDef)]
        makers = [node for each in (made, *above) for node in each.body if getattr(node, "name", "") == "__init__"]
        for maker in makers:
            self._call(maker, arguments, named, loose=False)
        if not makers:  # a dataclass, or a named tuple
            for name, value in [*zip([name for name, _ in class_fields(made)], arguments, strict=False), *named]:
                self._fields[name] = either([self._fields.get(name, NOTHING), value])

    def _give(self, function: ast.AST, place: ast.arg, value: Value, *, counts: bool = True) -> None:
        assert isinstance(function, FUNCTIONS)
        self.names.bind(place.arg, value, function.args, place)
        if counts:
            self._given[function] = self._given.get(function, frozenset()) | value.labels

    def _judge(self, function: Functions) -> None:
        places = [*function.args.posonlyargs, *function.args.args]
        for place, value in zip(places, (VIEW, Value(names=frozenset({CONTEXT}))), strict=False):
            self._give(function, place, value)
