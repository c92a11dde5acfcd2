"""A provider's answer as a `Turn`. The model or a server chose everything in it, so nothing is taken on trust."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from karotte_gym.agents.turn import Stop, Turn, Usage, as_call, history_call
from karotte_gym.models.catalogue import ModelInfo

__all__ = ["read_turn", "used_call_ids"]

_KEPT_EXTRAS = ("reasoning_content", "thinking_blocks", "reasoning_details")
_REPEATED_FIELDS = (*_KEPT_EXTRAS, "citations")  # litellm gives these twice


def used_call_ids(messages: Iterable[dict[str, Any]]) -> set[str]:
    """Ids of the calls so far: some servers number from 0 in each answer, and Anthropic refuses such a conversation."""
    return {call["id"] for message in messages for call in message.get("tool_calls") or ()}


def read_turn(answer: dict[str, Any], model: ModelInfo, used_ids: set[str], cost_usd: float | None) -> Turn:
    """`answer` is a chat completion as plain data, secrets already taken out. ValueError when it is none."""
    choices = answer.get("choices")
    if not isinstance(choices, list) or not choices or not isinstance(choices[0].get("message"), dict):
        raise ValueError("an answer without a message")
    choice, message = choices[0], choices[0]["message"]
    text = _text(message.get("content"))
    actions = _actions(message.get("tool_calls"), used_ids)
    stop = _stop(choice.get("finish_reason"), actions, text)
    if stop == "content_filter":
        actions = []
    return Turn(
        actions=actions,
        text=text,
        message=_for_history(message, text, actions),
        stop=stop,
        usage=_usage(answer.get("usage"), model, cost_usd),
        reasoning=_text(message.get("reasoning_content")),
        token_ids=_extra(choice, "token_ids"),
        prompt_token_ids=_extra(answer, "prompt_token_ids"),
        logprobs=(choice.get("logprobs") or {}).get("content"),
    )


def _text(content: object) -> str:
    if isinstance(content, list):  # parts, as some servers answer
        return "".join(str(part.get("text") or "") for part in content if isinstance(part, dict))
    return content if isinstance(content, str) else ""


def _actions(calls: object, used_ids: set[str]) -> list[dict[str, Any]]:
    """Calls with ids that are new in this conversation; function and arguments as the model wrote them."""
    actions: list[dict[str, Any]] = []
    taken = set(used_ids)
    for call in calls if isinstance(calls, list) else []:
        if not isinstance(call, dict):
            continue
        action = as_call(call, "")
        while not action["id"] or action["id"] in taken:
            action["id"] = f"{action['id'][:50] or 'call'}_{len(taken)}"
        taken.add(action["id"])
        fields = call.get("provider_specific_fields")
        actions.append({**action, "provider_specific_fields": fields} if fields else action)
    return actions


def _stop(finish: object, actions: list[dict[str, Any]], text: str) -> Stop:
    if finish == "content_filter":
        return "content_filter"
    if actions:
        return "tool_calls"
    if not text.strip():
        return "empty"
    return "length" if finish == "length" else "text"


def _for_history(message: dict[str, Any], text: str, actions: list[dict[str, Any]]) -> dict[str, Any]:
    kept: dict[str, Any] = {"role": "assistant", "content": text or None}
    if actions:
        kept["tool_calls"] = [history_call(action) for action in actions]
    fields = {key: value for key, value in (message.get("provider_specific_fields") or {}).items() if value}
    if fields.get("reasoning_details"):  # where litellm puts OpenRouter's
        kept["reasoning_details"] = fields["reasoning_details"]
    kept |= {key: message[key] for key in _KEPT_EXTRAS if message.get(key)}
    others = {key: value for key, value in fields.items() if key not in _REPEATED_FIELDS}
    return kept | ({"provider_specific_fields": others} if others else {})


def _usage(usage: object, model: ModelInfo, cost_usd: float | None) -> Usage:
    numbers: dict[str, Any] = usage if isinstance(usage, dict) else {}
    read = Usage(
        input_tokens=_count(numbers.get("prompt_tokens")),
        output_tokens=_count(numbers.get("completion_tokens")),
        cached_tokens=_count((numbers.get("prompt_tokens_details") or {}).get("cached_tokens")),
        reasoning_tokens=_count((numbers.get("completion_tokens_details") or {}).get("reasoning_tokens")),
    )
    if cost_usd is None and model.input_usd_per_million is not None and model.output_usd_per_million is not None:
        paid = read.input_tokens * model.input_usd_per_million + read.output_tokens * model.output_usd_per_million
        cost_usd = paid / 1_000_000
    return Usage(read.input_tokens, read.output_tokens, read.cached_tokens, read.reasoning_tokens, cost_usd)


def _count(value: object) -> int:
    return value if isinstance(value, int) and value > 0 else 0


def _extra(holder: dict[str, Any], name: str) -> Any:
    """A field beyond OpenAI's; litellm keeps those under provider_specific_fields."""
    value = holder.get(name) or (holder.get("provider_specific_fields") or {}).get(name)
    return value if isinstance(value, list) else None
