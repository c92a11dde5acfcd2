"""`Agent`: who plays the student. Implement `act`, and `rollout` does the rest.

Promises of an agent:

- `act` gets the conversation so far (OpenAI chat format, system message first) and the tools (OpenAI schemas), and
  returns one `Turn`. It changes neither list.
- It may raise `ProviderError` (no verdict), `ContextExceeded` (the student's own limit) and `Stopped`; anything else is
  a mistake in the agent and raises through.
- `reset` is called once per episode with the environment's info. An agent plays one episode at a time.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, runtime_checkable

__all__ = ["Agent", "Stop", "Turn", "Usage", "as_call", "calling", "saying"]

Stop = Literal["tool_calls", "text", "length", "content_filter", "empty"]
_IDENTITY = re.compile(r"[A-Za-z0-9_-]{1,64}")  # what every provider takes as the id of a call
_NAME_BAD = re.compile(r"[^A-Za-z0-9_-]")  # OpenAI and Anthropic answer any other name in a history with 400


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens as the provider counted them. `cost_usd` is None when nobody knows the price."""

    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    reasoning_tokens: int = 0
    cost_usd: float | None = None


@dataclass(frozen=True, slots=True)
class Turn:
    """What the student does next.

    `actions` are OpenAI tool calls as the model wrote them, malformed arguments and all; the environment answers those.
    `message` is the assistant message for the conversation, fit to be sent to any provider again.
    """

    actions: list[dict[str, Any]]
    text: str
    message: dict[str, Any]
    stop: Stop
    usage: Usage = Usage()
    reasoning: str = ""
    token_ids: list[int] | None = None
    logprobs: list[dict[str, Any]] | None = None
    prompt_token_ids: list[int] | None = None
    failures: list[dict[str, Any]] = field(default_factory=list)  # attempts that failed before this one worked
    lost_s: float = 0.0  # time that those and the waiting cost: the provider's, not the student's


@runtime_checkable
class Agent(Protocol):
    """See the module's docstring for what is promised."""

    def reset(self, info: Mapping[str, Any]) -> None:
        """A new episode begins; `info` is what the environment's reset gave."""

    def act(self, messages: list[dict[str, Any]], tools: list[dict[str, Any]]) -> Turn:
        """The next turn."""


def saying(text: str) -> Turn:
    """A turn of text alone, which ends the step of the task."""
    return Turn([], text, {"role": "assistant", "content": text}, "text" if text.strip() else "empty")


def calling(actions: Sequence[Mapping[str, Any]], text: str = "", first_id: int = 0) -> Turn:
    """A turn of calls, given as ``{"name", "arguments"}`` or in OpenAI's form; ids are made up where there are none."""
    calls = [as_call(action, f"call_{first_id + index}") for index, action in enumerate(actions)]
    message = {"role": "assistant", "content": text or None, "tool_calls": [history_call(each) for each in calls]}
    return Turn(calls, text, message, "tool_calls")


def as_call(action: Mapping[str, Any], identity: str) -> dict[str, Any]:
    """Any action as an OpenAI tool call with a usable id. What the model wrote otherwise stays as it is."""
    function = action.get("function")
    inner: Mapping[str, Any] = function if isinstance(function, Mapping) else action
    given = action.get("id")
    good = isinstance(given, str) and _IDENTITY.fullmatch(given)
    return {
        "id": given if good else identity,
        "type": "function",
        "function": {"name": inner.get("name"), "arguments": inner.get("arguments")},
    }


def history_call(action: Mapping[str, Any]) -> dict[str, Any]:
    """The call as a later request may hold it.

    Providers refuse a whole conversation for one bad name or for arguments that are no JSON object, so a student could
    turn an episode that it is losing into an error of the provider's. The malformed text is kept, in a proper object.
    """
    function = action["function"]
    name = _NAME_BAD.sub("_", str(function["name"] or ""))[:64] or "unnamed"
    kept = {key: value for key, value in action.items() if key not in ("function", "index")}
    return {**kept, "function": {"name": name, "arguments": _object_text(function["arguments"])}}


def _object_text(arguments: object) -> str:
    value: object = arguments
    if isinstance(arguments, str):
        try:
            value = json.loads(arguments) if arguments.strip() else {}
        except (ValueError, RecursionError):
            value = None
        if isinstance(value, dict):
            return arguments if arguments.strip() else "{}"
    if value is None and arguments is None:
        return "{}"
    if isinstance(value, dict):
        return json.dumps(value, default=str)
    return json.dumps({"malformed_arguments": arguments if isinstance(arguments, str) else str(arguments)})
