"""What the expressions of a scoring script may be, given what is known of its names, fields and functions so far."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from dataclasses import replace

from karotte_gym.validate.script_calls import result_of
from karotte_gym.validate.script_names import FUNCTIONS, Names
from karotte_gym.validate.script_shapes import is_property
from karotte_gym.validate.script_values import (
    CONTENT,
    COPIED,
    HANDLE,
    LONGEST_NAME,
    NOTHING,
    ORIGINAL,
    ROOT_DATA,
    SUBMITTED,
    Value,
    computed,
    constant,
    either,
    iterated,
    joined_path,
    joined_text,
    sequence,
)

__all__ = ["CONTEXT", "KNOWN_ATTRIBUTES", "Expressions", "passed"]

OF_SUBMISSION, OF_ROOT_DATA = Value(frozenset({SUBMITTED})), Value(frozenset({ROOT_DATA}))
ARGUMENTS = (NOTHING, OF_SUBMISSION, OF_ROOT_DATA, NOTHING)  # the script, and what it is called with; the last is the result
ARGV = sequence(ARGUMENTS)
NAMESPACE = "argparse.Namespace"
PARSED = Value(ARGV.labels, frozenset({NAMESPACE}))
CONTEXT = "FunctionContext"
KNOWN_ATTRIBUTES = {
    f"{CONTEXT}.root_data": OF_ROOT_DATA,
    f"{CONTEXT}.grading_data": OF_ROOT_DATA,
    f"{CONTEXT}.messages": Value(frozenset({SUBMITTED, CONTENT})),
    "sys.argv": ARGV,
    "sys.maxsize": constant(sys.maxsize),
}
LAST_PARTS = {"name", "stem", "suffix"}  # of a path: no directory is left in it
UNKNOWN = "unknown"


class Expressions:
    """`of(expression)`: what is known of its value."""

    def __init__(self, tree: ast.Module):
        self.names = Names(tree)
        self._fields: dict[str, Value] = {}  # of all objects of the script's own classes
        self._returned: dict[ast.AST, Value] = {}
        self._given: dict[ast.AST, frozenset[str]] = {}  # all labels that a function's arguments ever had
        self._options: dict[ast.Call, tuple[str, ...]] = {}  # what each add_argument() names
        self._copied_to: set[str] = set()  # places to which the script copies something of the submission
        self._remembered: dict[ast.AST, Value] = {}
        self._methods: dict[str, frozenset[ast.AST]] = {}
        self._stars = []
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and node.names[0].name == "*":
                self._stars.append(node.module)
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and self._is_method(node):
                self._methods[node.name] = self._methods.get(node.name, frozenset()) | {node}

    def of(self, node: ast.AST | None) -> Value:
        """What is known of the value."""
        if node is None:
            return NOTHING
        if node not in self._remembered:
            self._remembered[node] = NOTHING  # of a value that depends on itself
            self._remembered[node] = self._of(node)
        return self._remembered[node]

    def _of(self, node: ast.AST) -> Value:
        if isinstance(node, ast.Constant):
            copied = isinstance(node.value, str) and any(node.value.startswith(place) for place in self._copied_to)
            return constant(node.value).labelled(*([COPIED] if copied else ()))
        if isinstance(node, ast.Name):
            return self._of_name(node)
        if isinstance(node, ast.Attribute):
            return self._attribute(self.of(node.value), node.attr)
        if isinstance(node, ast.Call):
            return self._of_call(node)
        if isinstance(node, ast.Subscript):
            return self._of_part(node)
        if isinstance(node, ast.JoinedStr):
            return joined_text([self.of(part) for part in node.values])
        if isinstance(node, ast.BinOp):
            return self._of_operation(node)
        if isinstance(node, ast.UnaryOp):
            value = self.of(node.operand)
            return computed(ast.Sub, constant(0), value) if isinstance(node.op, ast.USub) else replace(value, constants=())
        if isinstance(node, (ast.Tuple, ast.List)):
            return self._of_list(node)
        if isinstance(node, ast.Dict):
            return self._of_table(node)
        if isinstance(node, ast.Lambda):
            return Value(functions=frozenset({node}))
        if isinstance(node, (ast.ListComp, ast.SetComp, ast.GeneratorExp)):
            return self._of_comprehension(node)
        if isinstance(node, ast.IfExp):
            return either([self.of(node.body), self.of(node.orelse)])
        if isinstance(node, (ast.NamedExpr, ast.FormattedValue)):
            return self.of(node.value)
        if isinstance(node, ast.Compare):
            return NOTHING
        children = [self.of(child) for child in ast.iter_child_nodes(node) if isinstance(child, ast.expr)]
        whole = either(children)
        return whole if len(children) == 1 or isinstance(node, ast.BoolOp) else replace(whole, elements=None)

    def _of_name(self, node: ast.Name) -> Value:
        known = self.names.look_up(node)
        if known is None:
            return Value(names=frozenset([node.id, *(f"{module}.{node.id}" for module in self._stars)]))
        return known

    def _attribute(self, base: Value, name: str) -> Value:
        names = {f"{each}.{name}" for each in base.names or {""} if len(each) < LONGEST_NAME}
        for each in names & KNOWN_ATTRIBUTES.keys():
            return KNOWN_ATTRIBUTES[each]
        if NAMESPACE in base.names:
            return self._option(name)
        own = base == NOTHING or base.instances or any(isinstance(each, ast.ClassDef) for each in base.functions)
        if own and (name in self._fields or name in self._methods):
            return either([self._fields.get(name, NOTHING), *map(self._of_method, self._methods.get(name, ()))])
        labels = base.labels - {CONTENT} if name in LAST_PARTS else base.labels
        return Value(labels, frozenset(names))

    def _of_method(self, method: ast.AST) -> Value:
        return self._returned.get(method, NOTHING) if is_property(method) else Value(functions=frozenset({method}))

    def _option(self, name: str) -> Value:
        """An argument by its name: by its place, where all of them are known."""
        texts = [text for call in sorted(self._options, key=lambda each: each.lineno) for text in self._options[call]]
        places = [text for text in dict.fromkeys(texts) if not text.startswith("-")]
        if len(places) == 1 and name in places:
            return sequence(ARGUMENTS[1:])  # nargs
        if len(places) != len(ARGUMENTS) - 1:
            return replace(ARGV, elements=None)
        return ARGUMENTS[1 + places.index(name)] if name in places else NOTHING

    def _of_part(self, node: ast.Subscript) -> Value:
        value = self.of(node.value)
        if isinstance(node.slice, ast.Slice):
            return self._of_slice(value, node.slice)
        if value.elements is None:
            return replace(value, constants=()).without(HANDLE)
        if value.keys:
            asked = [key for key in self.of(node.slice).constants if key in value.keys]
            return value.elements[value.keys.index(asked[0])] if len(asked) == 1 else either(value.elements)
        place = self._number(node.slice)
        if isinstance(place, int) and -len(value.elements) <= place < len(value.elements):
            return value.elements[place]
        return either(value.elements)

    def _of_slice(self, value: Value, part: ast.Slice) -> Value:
        first, end, step = (self._number(each) for each in (part.lower, part.upper, part.step))
        if value.elements is None or isinstance(first, str) or isinstance(end, str) or isinstance(step, str) or step == 0:
            return replace(value.without(ORIGINAL), constants=(), elements=None)
        return sequence(value.elements[first:end:step])

    def _number(self, node: ast.expr | None) -> int | str | None:
        """Of a constant, None where there is none, UNKNOWN where it isn't known."""
        known = self.of(node).constants
        return None if node is None else known[0] if len(known) == 1 and isinstance(known[0], int) else UNKNOWN

    def _of_operation(self, node: ast.BinOp) -> Value:
        left, right = self.of(node.left), self.of(node.right)
        numbers = computed(type(node.op), left, right)
        if numbers.constants:
            return numbers
        if isinstance(node.op, ast.Add):
            if left.elements is not None and right.elements is not None:
                return sequence(left.elements + right.elements)
            return joined_text([left, right])
        return joined_path([left, right]) if isinstance(node.op, ast.Div) else numbers

    def _of_list(self, node: ast.Tuple | ast.List) -> Value:
        elements: list[Value] = []
        for each in node.elts:
            value = self.of(each)
            if isinstance(each, ast.Starred) and value.elements is None:
                return replace(either([self.of(every) for every in node.elts]), constants=(), elements=None)
            elements.extend((value.elements or ()) if isinstance(each, ast.Starred) else (value,))
        return sequence(elements)

    def _of_table(self, node: ast.Dict) -> Value:
        keys, values = [self.of(key).constants for key in node.keys], [self.of(value) for value in node.values]
        if node.keys and all(len(key) == 1 for key in keys):
            return sequence(values, tuple(key[0] for key in keys))
        every = either([*values, *(self.of(key) for key in node.keys)])
        return replace(every, constants=(), elements=None)

    def _of_comprehension(self, node: ast.ListComp | ast.SetComp | ast.GeneratorExp) -> Value:
        """Over a list of known places, each place keeps where it comes from."""
        (first, *more), value = node.generators, self.of(node.elt)
        over = self.of(first.iter)
        if over.elements is None or over.keys or more or first.ifs:
            return replace(value, constants=value.constants, elements=None)
        from_it = iterated(over).labels
        kept = value.labels - from_it
        return sequence(Value(kept | (element.labels & value.labels), constants=element.constants) for element in over.elements)

    def _of_call(self, node: ast.Call) -> Value:
        callee, arguments = self.of(node.func), self._arguments(node)
        keywords = {keyword.arg or "": self.of(keyword.value) for keyword in node.keywords}
        every = [*arguments, *keywords.values()]
        if "getattr" in callee.names and len(arguments) > 1:
            return either(self._attribute(arguments[0], name) for name in arguments[1].constants if isinstance(name, str))
        if "parse_args" in callee.last_names:
            return PARSED
        if "parse_known_args" in callee.last_names:
            return sequence((PARSED, NOTHING))
        if functions := self.functions_of(callee):
            return either(self._returned_to(function, every) for function in functions)
        return result_of(callee, arguments, keywords)

    def functions_of(self, callee: Value) -> frozenset[ast.AST]:
        """The script's own functions and classes that a call of it may call."""
        return callee.functions | (self._methods.get("__call__", frozenset()) if callee.instances else frozenset())

    def _returned_to(self, function: ast.AST, arguments: list[Value]) -> Value:
        """Without what only other calls have given it."""
        labels = frozenset().union(*(value.labels for value in arguments))
        if isinstance(function, ast.ClassDef):
            return Value(labels, instances=frozenset({function}))
        body = self.of(function.body) if isinstance(function, ast.Lambda) else self._returned.get(function, NOTHING)
        others = self._given.get(function, frozenset()) - labels
        if SUBMITTED in others:
            others |= {CONTENT}
        return body.without(*others)

    def _arguments(self, node: ast.Call) -> list[Value]:
        """By place; what a `*` of unknown length gives stands once."""
        found: list[Value] = []
        for argument in node.args:
            value = self.of(argument.value if isinstance(argument, ast.Starred) else argument)
            found.extend(value.elements if isinstance(argument, ast.Starred) and value.elements is not None else (value,))
        return found

    def _is_method(self, node: ast.AST) -> bool:
        return isinstance(node, FUNCTIONS) and isinstance(self.names.parent_of.get(node), ast.ClassDef)


def passed(node: ast.Call) -> Iterator[ast.expr]:
    """All that is passed."""
    for argument in node.args:
        yield argument.value if isinstance(argument, ast.Starred) else argument
    for keyword in node.keywords:
        yield keyword.value
