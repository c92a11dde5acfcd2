"""The right answer with less, more or other things in it than was asked for, by what it is: JSON, a number, lines of text.

A grader that looks at what it finds, and not at what it should find, takes half of an answer for the whole, all that
could be right for what is, infinity for enough. Each function gives None where there is no such form of an answer.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

__all__ = ["emptied", "first_letters", "first_only", "half", "infinite", "more_elements", "more_keys", "not_a_number"]
__all__ += ["off_by_a_tenth", "repeated", "true"]

MORE = 12  # more guesses would be cut off where a grader reads a few hundred bytes
NUMBER = re.compile(r"\s*[+-]?\d+(\.\d+)?\s*")
Value = Any


def half(content: bytes) -> bytes | None:
    """Its first half: of a list, of the keys, of the lines, of one word."""
    return _rewritten(content, lambda value: _shortened(value, _half), _half)


def first_only(content: bytes) -> bytes | None:
    """Its first element, key, line or letter."""
    return _rewritten(content, lambda value: _shortened(value, _first), _first)


def first_letters(content: bytes) -> bytes | None:
    """Of every text in it the first letter: ``expected.startswith(answer)``."""
    return _rewritten(content, lambda value: _in_leaves(value, str, _first), None)


def repeated(content: bytes) -> bytes | None:
    """As many elements or lines, all of them the first."""
    return _rewritten(content, lambda value: _in_lists(value, _repeated), _repeated)


def more_elements(content: bytes) -> bytes | None:
    """The right elements, and guesses behind them."""
    return _rewritten(content, lambda value: _in_lists(value, _with_guesses), None)


def more_keys(content: bytes) -> bytes | None:
    """The right keys, and others."""

    def change(value: Value) -> Value:
        if not isinstance(value, dict) or not value:
            return value
        return value | {f"guess {number}": next(iter(value.values())) for number in range(MORE)}

    return _rewritten(content, change, None)


def emptied(content: bytes) -> bytes | None:
    """The right keys, or as many elements, without anything in them."""
    return _rewritten(content, _emptied, None)


def not_a_number(content: bytes) -> bytes | None:
    """NaN in place of every number: ``abs(nan - expected) > tolerance`` is false."""
    return _rewritten(content, lambda value: _in_numbers(value, lambda _: float("nan")), None)


def infinite(content: bytes) -> bytes | None:
    """Infinity in place of every number: more than enough."""
    return _rewritten(content, lambda value: _in_numbers(value, lambda _: float("inf")), None)


def true(content: bytes) -> bytes | None:
    """``true`` in place of every number, which is 1 to Python."""
    return _rewritten(content, lambda value: _in_numbers(value, lambda _: True), None)


def off_by_a_tenth(content: bytes) -> bytes | None:
    """Numbers a tenth larger: what a tolerance lets through."""
    text = _as_text(content)
    if text is not None and NUMBER.fullmatch(text) and len(text) < 40:
        return f"{_more(float(text) if '.' in text else int(text))}\n".encode()
    return _rewritten(content, lambda value: _in_numbers(value, _more), None)


def _rewritten(content: bytes, of_json: Callable[[Value], Value], of_text: Callable[[Any], Any] | None) -> bytes | None:
    """JSON objects, lists and strings as such, all else as text: of several lines by line, of one by letter."""
    text = _as_text(content)
    if text is None:
        return None
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        value = None
    if isinstance(value, (dict, list, str)):
        made = json.dumps(of_json(value))
        return made.encode() if made != json.dumps(value) else None
    parts: Any = lines if len(lines := text.splitlines(keepends=True)) > 1 else text.strip()
    if of_text is None or not parts:
        return None
    changed = of_text(parts)
    return None if changed == parts else "".join(changed).encode()


def _as_text(content: bytes) -> str | None:
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError:
        return None


def _half(parts: Any) -> Any:
    return parts[: max(1, len(parts) // 2)]


def _first(parts: Any) -> Any:
    return parts[:1]


def _shortened(value: Value, cut: Callable[[Any], Any]) -> Value:
    """What has one element or key alone is shortened in that."""
    if isinstance(value, dict):
        if len(value) != 1:
            return dict(cut(list(value.items())))
        return {key: _shortened(each, cut) for key, each in value.items()}
    if isinstance(value, list):
        return cut(value) if len(value) != 1 else [_shortened(value[0], cut)]
    return cut(value) if isinstance(value, str) else value


def _in_lists(value: Value, change: Callable[[list[Any]], list[Any]]) -> Value:
    """Only the outermost lists: elements of a table are rows."""
    if isinstance(value, dict):
        return {key: _in_lists(each, change) for key, each in value.items()}
    return change(value) if isinstance(value, list) and value else value


def _repeated(parts: list[Any]) -> list[Any]:
    return parts if isinstance(parts, str) else parts[:1] * len(parts)


def _with_guesses(elements: list[Any]) -> list[Any]:
    return [*elements, *(_guess(elements[0], number) for number in range(1, MORE + 1))]


def _guess(like: Any, number: int) -> Any:
    if isinstance(like, bool):
        return number % 2 == 0
    if isinstance(like, int | float):
        return like + 7 * number
    if isinstance(like, dict):
        return {key: _guess(each, number) for key, each in like.items()}
    if isinstance(like, list):
        return [_guess(each, number) for each in like]
    return f"guess {number}" if isinstance(like, str) else like


def _emptied(value: Value) -> Value:
    if isinstance(value, dict):
        return {key: _nothing_like(each) for key, each in value.items()}
    return [_nothing_like(each) for each in value] if isinstance(value, list) else value


def _nothing_like(value: Value) -> Value:
    """An empty text, list or object, 0, false."""
    return None if value is None else type(value)()


def _in_leaves(value: Value, kinds: Any, change: Callable[[Any], Any]) -> Value:
    if isinstance(value, dict):
        return {key: _in_leaves(each, kinds, change) for key, each in value.items()}
    if isinstance(value, list):
        return [_in_leaves(each, kinds, change) for each in value]
    return change(value) if isinstance(value, kinds) and not isinstance(value, bool) else value


def _in_numbers(value: Value, change: Callable[[Any], Any]) -> Value:
    return _in_leaves(value, (int, float), change)


def _more(number: Any) -> Any:
    return number * 1.1 if isinstance(number, float) else number + max(1, abs(number) // 10)
