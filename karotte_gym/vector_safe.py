"""Makes an info dict that vector environments can batch, whatever a judge or a student put into it.

Gymnasium's vector environments gather one key of all sub-environments in one array whose type the first value
decides: an ``int`` in the first and ``None`` in the second raises in the middle of a batch. A student that can steer
such a value (an exit code, a grader's note) could so crash a whole training run. Numbers of a type of our own are
gathered as objects instead; they are ordinary numbers everywhere else, JSON and pickle included.
"""

from __future__ import annotations

from typing import Any

__all__ = ["Float", "Int", "vector_safe"]


class Int(int):
    """An int that is gathered as an object."""


class Float(float):
    """A float that is gathered as an object."""


def vector_safe(value: Any) -> Any:
    """A deep copy of plain data with the numbers in dicts made safe; what lists hold is never gathered."""
    if isinstance(value, dict):
        return {key: vector_safe(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_copy(inner) for inner in value]
    if type(value) is int:
        return Int(value)
    if type(value) is float:
        return Float(value)
    return value


def _copy(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _copy(inner) for key, inner in value.items()}
    return [_copy(inner) for inner in value] if isinstance(value, list) else value
