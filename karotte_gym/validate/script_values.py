"""What is known of a value of a scoring script by reading it: where it comes from, and what it may be.

Nothing is run: a `Value` is the sum of all that an expression may be, however the script goes.
"""

from __future__ import annotations

import ast
import itertools
import operator
import posixpath
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

__all__ = [
    "CONTENT",
    "COPIED",
    "FILES",
    "HANDLE",
    "LONGEST_NAME",
    "NOTHING",
    "ORIGINAL",
    "ROOT_DATA",
    "SUBMITTED",
    "Value",
    "computed",
    "constant",
    "either",
    "iterated",
    "joined_path",
    "joined_text",
    "sequence",
]

SUBMITTED, ROOT_DATA, ORIGINAL = "submitted", "root data", "original path"
CONTENT = "content"  # what the submission says, beside where it lies
COPIED = "copied"  # a place to which the script itself copies something of the submission
HANDLE = "open file"
FILES = "submitted files"  # the view that a judge's function gets: it bounds what it reads, and follows no path of the host
PLACES = {"/workdir": ORIGINAL, "/submission": SUBMITTED, "/root_data": ROOT_DATA, "/grading_data": ROOT_DATA}
MOST_CONSTANTS, MOST_CHARS, MOST_BITS = 8, 4096, 4096  # more of a script's constants are not computed
MOST_NAMES = 24
LONGEST_NAME = 120  # of calls of calls
MOST_DEPTH = 3  # of lists in lists; beyond it only the sum is known
ARITHMETIC = {ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul}
ARITHMETIC |= {ast.Pow: operator.pow, ast.LShift: operator.lshift}


@dataclass(frozen=True)
class Value:
    """`names` are full ones: ``pickle.loads``, or ``zipfile.ZipFile().read`` for a method of what a call made.

    `functions` are the script's own (or its classes), `instances` the classes that it may be an object of; `loose`: some
    arguments of the functions are bound already, so that places no longer tell which is which.
    """

    labels: frozenset[str] = frozenset()
    names: frozenset[str] = frozenset()
    constants: tuple[str | int | None, ...] = ()
    elements: tuple[Value, ...] | None = None
    keys: tuple[str | int | None, ...] = ()  # of its elements, when it is a table
    functions: frozenset[ast.AST] = frozenset()
    instances: frozenset[ast.AST] = frozenset()
    loose: bool = False

    def labelled(self, *labels: str) -> Value:
        """The same with these labels too."""
        return replace(self, labels=self.labels | set(labels))

    def without(self, *labels: str) -> Value:
        """The same without these labels."""
        return replace(self, labels=self.labels - set(labels))

    @property
    def last_names(self) -> set[str]:
        """``read`` of ``os.read``."""
        return {name.rpartition(".")[2] for name in self.names}

    @property
    def depth(self) -> int:
        """How many lists deep it is."""
        return 1 + max((element.depth for element in self.elements), default=0) if self.elements is not None else 0


NOTHING, NONE = Value(), Value(constants=(None,))  # the second is what an argument often is until it is given


def either(values: Iterable[Value]) -> Value:
    """It may be any of them."""
    values = [value for value in values if value != NOTHING]
    if len(values) < 2:
        return values[0] if values else NOTHING
    constants = tuple(dict.fromkeys(each for value in values for each in value.constants))
    known = [value.elements for value in values if value != NONE]
    elements = None
    keys = {value.keys for value in values if value != NONE}
    if len(keys) == 1 and all(each is not None and len(each) == len(known[0] or ()) for each in known):
        elements = tuple(either(same) for same in zip(*(each or () for each in known), strict=True))
    return Value(
        frozenset().union(*(value.labels for value in values)),
        _shortest(frozenset().union(*(value.names for value in values))),
        constants if len(constants) <= MOST_CONSTANTS else (),
        elements,
        keys.pop() if len(keys) == 1 else (),
        frozenset().union(*(value.functions for value in values)),
        frozenset().union(*(value.instances for value in values)),
        any(value.loose for value in values),
    )


def _shortest(names: frozenset[str]) -> frozenset[str]:
    """A value that may be anything has names without end; those of calls of calls are the longest, and mean the least."""
    return names if len(names) <= MOST_NAMES else frozenset(sorted(names, key=lambda name: (len(name), name))[:MOST_NAMES])


def sequence(elements: Iterable[Value], keys: tuple[str | int | None, ...] = ()) -> Value:
    """A list of known length, or a table; as a whole it is all that its elements are."""
    known = tuple(elements)
    whole = replace(either(known), constants=(), elements=known, keys=keys)
    return whole if whole.depth <= MOST_DEPTH else replace(whole, elements=None)


def iterated(value: Value) -> Value:
    """What a loop over it gives."""
    if value.elements is not None:
        return constant(*value.keys) if value.keys else either(value.elements)
    read = value.labelled(CONTENT) if {HANDLE, SUBMITTED} <= value.labels else value
    return replace(read.without(HANDLE), constants=())


def constant(*values: object) -> Value:
    """One of these literals; a path says by its beginning where it leads."""
    texts = [value.decode("utf-8", "replace") if isinstance(value, bytes) else value for value in values]
    kept = tuple(each for each in texts if each is None or isinstance(each, (str, int)))
    labels = {
        label
        for text in texts
        for place, label in PLACES.items()
        if isinstance(text, str) and (text == place or text.startswith(place + "/"))
    }
    return Value(frozenset(labels), constants=kept)


def joined_text(parts: list[Value]) -> Value:
    """Only a text that *begins* with /workdir is the original path: what stands behind a part that is never empty does not."""
    labels: set[str] = set()
    begins = True
    for part in parts:
        labels |= part.labels if begins else part.labels - {ORIGINAL}
        begins = begins and "" in part.constants
    return _with_constants(labels, parts, lambda texts: "".join(map(str, texts)))


def joined_path(parts: list[Value]) -> Value:
    """As os.path.join, which forgets what stands before an absolute path."""
    labels = {label for part in parts for label in part.labels}
    return _with_constants(labels, parts, lambda texts: posixpath.join("", *map(str, texts)))


def computed(kind: type[ast.operator], left: Value, right: Value) -> Value:
    """Of numbers; what is not known or too large is no number."""
    numbers = []
    for a, b in itertools.product(left.constants, right.constants):
        if isinstance(a, int) and isinstance(b, int) and kind in ARITHMETIC and _is_small(kind, a, b):
            numbers.append(ARITHMETIC[kind](a, b))
    return Value(left.labels | right.labels, constants=tuple(dict.fromkeys(numbers))[:MOST_CONSTANTS])


def _is_small(kind: type[ast.operator], a: int, b: int) -> bool:
    if kind is ast.Pow:
        return b >= 0 and a.bit_length() * b <= MOST_BITS
    if kind is ast.LShift:
        return b >= 0 and a.bit_length() + b <= MOST_BITS
    return a.bit_length() + b.bit_length() <= MOST_BITS


def _with_constants(labels: set[str], parts: list[Value], join: Callable[[tuple[object, ...]], str]) -> Value:
    choices = itertools.product(*(part.constants for part in parts))
    texts = [join(choice) for choice in itertools.islice(choices, MOST_CONSTANTS)]
    known = constant(*(text for text in texts if len(text) <= MOST_CHARS))
    return known.labelled(*labels)
