"""Which values a name may have where it is used: scopes, and the order of what is assigned to it.

Many scripts call every open file `stream` and every path `path`; what such a name was before it was assigned anew, in
the same block or around it, it no longer is. All else errs towards more values: branches are all taken, and a function
may be called at any time.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from karotte_gym.validate.script_values import NOTHING, Value, either

__all__ = ["FUNCTIONS", "Names"]

FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
LOOPS = (ast.For, ast.AsyncFor, ast.While)
FROM_THE_START = -1
Block = tuple[ast.AST, str]  # a list of statements: the node that has it, and its field


@dataclass
class _Binding:
    value: Value
    place: ast.AST
    begins: int  # the place in the text from which on it holds
    block: Block | None  # where it replaces what the name was before; None: it may be skipped, or adds only


class Names:
    """Bind names, then look them up."""

    def __init__(self, tree: ast.Module):
        self.parent_of: dict[ast.AST, ast.AST] = {}
        self.changes = 0
        self._nodes = 0
        self._scope_of: dict[ast.AST, ast.AST] = {}
        self._block_of: dict[ast.AST, Block] = {}
        self._order: dict[ast.AST, int] = {}
        self._end: dict[ast.AST, int] = {}
        self._outer: dict[tuple[ast.AST, str], ast.AST] = {}  # names that a function declares to be another scope's
        self._bindings: dict[tuple[ast.AST, str], dict[ast.AST, _Binding]] = {}
        self._module = tree
        self._place(tree, tree)
        for node in ast.walk(tree):
            if isinstance(node, (ast.Global, ast.Nonlocal)):
                above = tree if isinstance(node, ast.Global) else self.scope(self.scope(node))
                self._outer.update({(self.scope(node), name): above for name in node.names})

    def scope(self, node: ast.AST) -> ast.AST:
        """The function, comprehension or module that a node is in."""
        return self._scope_of[node]

    def function(self, node: ast.AST) -> ast.AST:
        """The function or module that a node is in."""
        scope = self.scope(node)
        while isinstance(scope, COMPREHENSIONS):
            scope = self.scope(scope)
        return scope

    def bind(self, name: str, value: Value, place: ast.AST, at: ast.AST, *, adds: bool = False) -> None:
        """The name, as known at `at`, gets the value by the statement (loop, case, arguments) `place`."""
        scope = self._outer.get((self.scope(at), name), self.scope(at))
        known = self._bindings.setdefault((scope, name), {})
        if (old := known.get(at)) is None:
            known[at] = _Binding(value, place, self._begins(place), None if adds else self._replaces(place))
            self.changes += 1
        elif (new := either([old.value, value])) != old.value:
            old.value = new
            self.changes += 1

    def look_up(self, use: ast.Name) -> Value | None:
        """What it may be; None when the script never binds it."""
        scope = self._outer.get((self.scope(use), use.id), self.scope(use))
        same_time = True
        while (known := self._bindings.get((scope, use.id))) is None:
            if scope is self._module:
                return None
            same_time = same_time and isinstance(scope, COMPREHENSIONS)
            scope = self.scope(scope)
        reaching = self._reaching(list(known.values()), use) if same_time else list(known.values())
        return either(binding.value for binding in reaching) if reaching else NOTHING

    def _reaching(self, bindings: list[_Binding], use: ast.AST) -> list[_Binding]:
        at, around = self._order[use], list(self._around(use))
        loops = {node for node, _ in around if isinstance(node, LOOPS)}
        before = [each for each in bindings if each.begins < at]
        later = [each for each in bindings if each.begins >= at and loops & self._loops(each.place)]
        replacing = max((each for each in before if each.block in around), key=lambda each: each.begins, default=None)
        if replacing is None:
            return before + later
        inside = self._loops(replacing.place)
        again = [each for each in later if not (loops & self._loops(each.place)) <= inside]
        return [each for each in before if each.begins >= replacing.begins] + again

    def _loops(self, node: ast.AST) -> set[ast.AST]:
        around = {above for above, _ in self._around(node) if isinstance(above, LOOPS)}
        return around | ({node} if isinstance(node, LOOPS) else set())

    def _around(self, node: ast.AST) -> Iterator[Block]:
        while node in self._block_of:
            yield self._block_of[node]
            node = self.parent_of[node]

    def _begins(self, place: ast.AST) -> int:
        if isinstance(place, (ast.arguments, ast.comprehension)):
            return FROM_THE_START
        if isinstance(place, (ast.For, ast.AsyncFor)):
            return self._end[place.iter]
        if isinstance(place, (ast.With, ast.AsyncWith)):
            return self._order[place.body[0]] - 1
        if isinstance(place, ast.match_case):
            return self._end[place.pattern]
        return self._end[place]

    def _replaces(self, place: ast.AST) -> Block | None:
        if isinstance(place, ast.arguments):
            return (self.parent_of[place], "body")
        if isinstance(place, (ast.For, ast.AsyncFor, ast.match_case)):
            return (place, "body")
        if isinstance(place, ast.stmt) and not isinstance(place, ast.AugAssign):
            return self._block_of[place]
        return None

    def _place(self, node: ast.AST, scope: ast.AST) -> None:
        self._scope_of[node] = scope
        self._order[node] = self._nodes = self._nodes + 1
        for field, value in ast.iter_fields(node):
            own = isinstance(node, FUNCTIONS) and field in ("args", "body")
            inner = node if own or isinstance(node, COMPREHENSIONS) else scope
            for child in value if isinstance(value, list) else [value]:
                if isinstance(child, ast.AST):
                    self.parent_of[child] = node
                    self._block_of[child] = (node, field)
                    self._place(child, inner)
        self._end[node] = self._nodes
