"""Which types reach a tool in the machine as they are written: pydantic, which makes the others, is not there."""

from __future__ import annotations

import types
import typing
from typing import Annotated, Any, Literal, Union

__all__ = ["is_plain"]

_PLAIN = (str, int, float, bool, None, type(None), list, dict, Any, object)


def is_plain(hint: Any) -> bool:
    """Whether what JSON has for a value of this type is that value."""
    hint = getattr(hint, "__supertype__", getattr(hint, "__value__", hint))  # of NewType and of `type X = ...`
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if origin is Annotated:
        return is_plain(inner[0])
    if origin is Literal:
        return all(type(value) in _PLAIN for value in inner)
    if origin is dict:
        return not inner or (inner[0] is str and is_plain(inner[1]))
    if origin in (list, Union, types.UnionType):
        return all(is_plain(each) for each in inner)
    return hint in _PLAIN
