"""What comes out of a call of something that is not the script's own."""

from __future__ import annotations

from dataclasses import replace

from karotte_gym.validate import script_words as words
from karotte_gym.validate.script_values import (
    CONTENT,
    FILES,
    HANDLE,
    LONGEST_NAME,
    NOTHING,
    ORIGINAL,
    SUBMITTED,
    Value,
    either,
    joined_path,
    sequence,
)

__all__ = ["result_of"]

IMPORTING = {"__import__", "importlib.import_module"}
BINDING = {"functools.partial", "functools.partialmethod", "functools.wraps", "functools.cache", "functools.lru_cache"}


def result_of(callee: Value, arguments: list[Value], keywords: dict[str, Value]) -> Value:
    """All that goes in may come out, but for what is known better."""
    last = callee.last_names
    if last & words.FACTS:
        return NOTHING
    if FILES in callee.labels:
        return _of_view(last)
    if (known := _by_places(callee, arguments)) is not None:
        return known
    given = arguments[1:] if "get" in last else arguments  # what a table is asked for is not what it says
    if callee.names & IMPORTING and arguments:
        return Value(names=frozenset(name for name in arguments[0].constants if isinstance(name, str)))
    names = frozenset(f"{name}()" for name in callee.names if len(name) < LONGEST_NAME)
    if callee.names & words.JOINING and not keywords:
        return replace(joined_path(arguments), names=names)
    every = either([callee, *given, *keywords.values()])
    bound = every.functions if callee.names & BINDING else frozenset()
    return Value(frozenset(_labels(last, callee, set(every.labels))), names, functions=bound, loose=bool(bound))


def _labels(last: set[str], callee: Value, labels: set[str]) -> set[str]:
    if last & words.OPENERS:
        labels.add(HANDLE)
    elif HANDLE in labels and not last & words.STILL_OPEN:
        labels.remove(HANDLE)
        if SUBMITTED in labels and not last & words.SAYING_NOTHING:
            labels.add(CONTENT)
    elif SUBMITTED in labels and (last & words.READING or words.is_one_of(callee.names, words.STARTING)):
        labels.add(CONTENT)
    if last & words.FROM_BELOW:
        labels.discard(ORIGINAL)
    if last & words.HARMLESS_AS_PATH:
        labels.discard(CONTENT)
    return labels - {FILES}


def _of_view(last: set[str]) -> Value:
    """Of a method of `SubmittedFiles`."""
    if last & {"read_text", "read_bytes"}:
        return Value(frozenset({SUBMITTED, CONTENT}))
    return Value(frozenset({SUBMITTED})) if "list" in last else NOTHING


def _by_places(callee: Value, arguments: list[Value]) -> Value | None:
    """A list of known places made into another, as ``map(Path, sys.argv[1:])``."""
    if callee.names & words.SAME_ELEMENTS and arguments and arguments[0].elements is not None and not arguments[0].keys:
        return arguments[0]
    if "zip" in callee.names and arguments and all(each.elements is not None for each in arguments):
        return sequence(sequence(pair) for pair in zip(*(each.elements or () for each in arguments), strict=False))
    if "dict" in callee.names and len(arguments) == 1:
        pairs = [each.elements or () for each in arguments[0].elements or ()]
        if pairs and all(len(pair) == 2 and len(pair[0].constants) == 1 for pair in pairs):
            return sequence((value for _, value in pairs), tuple(key.constants[0] for key, _ in pairs))
    if "map" in callee.names and len(arguments) == 2 and arguments[1].elements is not None:
        kept = arguments[0].labels - arguments[1].labels
        return sequence(Value(kept | element.labels, constants=element.constants) for element in arguments[1].elements)
    return None
