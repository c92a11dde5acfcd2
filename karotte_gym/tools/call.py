"""Reads an action as a tool call, whatever the action is: `parse_action` returns a `ToolCall` or an error text.

A model writes anything: no call, half a call, JSON that is none, arguments of another tool. Over millions of episodes
every one of these comes, so nothing here raises, and each answer names what is wrong in a line.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pydantic import ValidationError

from karotte_gym.strict_json import strict_json
from karotte_gym.tools.builtin import Tool
from karotte_gym.tools.schemas import signature

__all__ = ["MAX_ARGUMENTS_BYTES", "ToolCall", "parse_action"]

# As escaped JSON: a call must fit the header of one frame to the machine (guest.wire.MAX_HEADER_BYTES).
MAX_ARGUMENTS_BYTES = 224 * 1024
MAX_ID_CHARS = 256
MAX_PROBLEMS = 3  # named in one answer
MAX_SHOWN_CHARS = 80  # of what a stranger wrote, in an answer


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A call that fits its tool's schema. `arguments` holds what was given, without nulls."""

    name: str
    arguments: dict[str, Any] = field(default_factory=dict)
    id: str | None = None  # the chat API's own name for the call


class _NoCall(Exception):
    """What is wrong with an action, as a sentence for the student."""


class _Unfit(Exception):
    """What is wrong with the arguments of a tool that there is."""


def parse_action(action: object, tools: Mapping[str, type[Tool]]) -> ToolCall | str:
    """The call in `action`, which may be any object whatsoever, or what is wrong with it."""
    try:
        return _parse(action, tools)
    except _NoCall as problem:
        return f"error: {problem}"
    except RecursionError:
        return "error: the call is nested too deeply"
    except Exception as error:  # an object of a stranger's class may raise anything when it is merely looked at
        return f"error: the call can't be read ({type(error).__name__})"


def _parse(action: object, tools: Mapping[str, type[Tool]]) -> ToolCall:
    if not isinstance(action, Mapping):
        raise _NoCall(f'a call is {{"name": ..., "arguments": {{...}}}}, not {_kind(action)}')
    inner = action.get("function")
    call = inner if isinstance(inner, Mapping) else action
    name = call.get("name")
    if not isinstance(name, str):
        raise _NoCall(f'a call needs "name", a text, and "arguments"; there are: {", ".join(tools)}')
    name = str(name)
    if name not in tools:
        raise _NoCall(f"there is no tool {_shown(name)}; there are: {', '.join(tools)}")
    tool = tools[name]
    try:
        arguments = _checked(tool, _arguments(call.get("arguments")))
    except _Unfit as problem:
        raise _NoCall(f"{name}: {problem}; {signature(name, tool)}") from None
    identity = action.get("id")
    known = isinstance(identity, str) and len(identity) <= MAX_ID_CHARS and identity.isprintable()
    return ToolCall(name, arguments, str(identity) if known else None)


def _arguments(given: object) -> dict[str, Any]:
    """The arguments as a dict, read from JSON where they are text. None given counts as an empty object."""
    if isinstance(given, str):
        if len(given) > MAX_ARGUMENTS_BYTES:
            raise _Unfit(_too_long(len(given)))
        given = _from_json(given)
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        raise _Unfit(f"arguments must be an object, not {_kind(given)}")
    if not all(isinstance(key, str) for key in given):
        raise _Unfit("names of arguments must be text")
    return {str(key): value for key, value in given.items()}


def _from_json(text: str) -> Any:
    try:
        return strict_json(text)
    except ValueError as error:  # JSONDecodeError, and an integer of thousands of digits
        raise _Unfit(f"arguments are no valid JSON ({str(error)[:120]})") from None


def _checked(tool: type[Tool], arguments: dict[str, Any]) -> dict[str, Any]:
    try:
        checked = tool.checked(arguments)
    except ValidationError as error:
        raise _Unfit(_problems(error)) from None
    except (TypeError, ValueError) as error:  # infinities, and objects of a trainer's own, which no JSON can say
        raise _Unfit(f"arguments must be plain JSON ({str(error)[:120]})") from None
    for argument, value in checked.items():
        if isinstance(value, str) and not _is_text(value):
            raise _Unfit(f"{argument} contains half a character (a lone surrogate)")
    size = len(json.dumps(checked))
    if size > MAX_ARGUMENTS_BYTES:
        raise _Unfit(_too_long(size))
    return checked


def _problems(error: ValidationError) -> str:
    found = error.errors(include_url=False, include_context=False, include_input=False)
    texts = []
    for problem in found[:MAX_PROBLEMS]:
        where = ".".join(_shown(str(part)) for part in problem["loc"])
        texts.append(f"{where}: {problem['msg']}" if where else problem["msg"])
    more = f" and {len(found) - MAX_PROBLEMS} more" if len(found) > MAX_PROBLEMS else ""
    return "; ".join(texts) + more


def _too_long(size: int) -> str:
    return f"arguments of {size} bytes are too long; at most {MAX_ARGUMENTS_BYTES} bytes as JSON"


def _is_text(value: str) -> bool:
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def _shown(text: str) -> str:
    short = text[:MAX_SHOWN_CHARS].encode("ascii", "backslashreplace").decode()
    return short if short.isidentifier() else repr(short)


def _kind(value: object) -> str:
    if value is None:
        return "nothing"
    kinds: list[tuple[type | tuple[type, ...], str]] = [
        (bool, "true or false"), (str, "text"), ((int, float), "a number"), (Mapping, "an object"),
        ((list, tuple), "a list"), (bytes, "bytes"),
    ]  # fmt: skip
    return next((word for kind, word in kinds if isinstance(value, kind)), "something else")
