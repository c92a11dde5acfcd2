"""How a value falls apart: by a tuple of names, by the patterns of `match`, and into the fields of a class."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from karotte_gym.validate.script_values import Value, iterated, sequence

__all__ = ["captured", "class_fields", "is_property", "is_static", "spread"]


def spread(value: Value, targets: list[ast.expr]) -> list[Value]:
    """What each of the targets of an assignment gets."""
    return _spread(value, [isinstance(target, ast.Starred) for target in targets])


def captured(pattern: ast.pattern, value: Value) -> Iterator[tuple[ast.AST, str, Value]]:
    """Each name that a pattern binds: where, the name, its value."""
    if isinstance(pattern, ast.MatchSequence):
        parts = _spread(value, [isinstance(each, ast.MatchStar) for each in pattern.patterns])
        for each, part in zip(pattern.patterns, parts, strict=True):
            yield from captured(each, part)
        return
    if isinstance(pattern, (ast.MatchAs, ast.MatchStar)) and pattern.name is not None:
        yield pattern, pattern.name, value
    if isinstance(pattern, ast.MatchAs) and pattern.pattern is not None:
        yield from captured(pattern.pattern, value)
    elif isinstance(pattern, (ast.MatchOr, ast.MatchMapping, ast.MatchClass)):
        for each in (*pattern.patterns, *getattr(pattern, "kwd_patterns", ())):
            yield from captured(each, value if isinstance(pattern, ast.MatchOr) else iterated(value))


def class_fields(made: ast.ClassDef) -> Iterator[tuple[str, ast.expr | None]]:
    """The fields that stand at the top of a class, in their order, with what they are at first."""
    for node in made.body:
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            yield node.target.id, node.value
        elif isinstance(node, ast.Assign):
            yield from ((target.id, node.value) for target in node.targets if isinstance(target, ast.Name))


def is_static(function: ast.AST) -> bool:
    """Whether a method has no `self`."""
    return _is_decorated(function, "staticmethod")


def is_property(function: ast.AST) -> bool:
    """Whether a method is called by being named."""
    return _is_decorated(function, "property") or _is_decorated(function, "cached_property")


def _is_decorated(function: ast.AST, name: str) -> bool:
    return any(ast.unparse(each).rpartition(".")[2] == name for each in getattr(function, "decorator_list", []))


def _spread(value: Value, starred: list[bool]) -> list[Value]:
    known = value.elements
    if known is None or len(known) < len(starred) - sum(starred) or (len(known) != len(starred) and not any(starred)):
        return [iterated(value) for _ in starred]
    more = len(known) - len(starred) + 1
    parts: list[Value] = []
    at = 0
    for star in starred:
        parts.append(sequence(known[at : at + more]) if star else known[at])
        at += more if star else 1
    return parts
