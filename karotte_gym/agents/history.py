"""The conversation as one provider wants it: reasoning sent back or not, pictures where it takes them, cache marks.

Works on copies; what is kept and trained on stays free of marks. Pictures are only passed on as data: litellm fetches
pictures that are given by URL, on the host, so a URL from the student's machine would be a way to make the host ask the
network for anything.
"""

from __future__ import annotations

import copy
from typing import Any

from karotte_gym.agents.plain_text import encodable
from karotte_gym.models.catalogue import ModelInfo

__all__ = ["for_provider", "has_pictures"]

_EXTRA_KEYS = {  # of an assistant message, by what the provider needs back
    "none": (),
    "thinking_blocks": ("thinking_blocks",),
    "reasoning_content": ("reasoning_content",),
    "reasoning_details": ("reasoning_details",),
    "thought_signatures": ("provider_specific_fields",),
}
_ASSISTANT_KEYS = ("role", "content", "tool_calls")
_CACHED_TAIL_MESSAGES = 2  # Anthropic takes four marks: system, tools' end (its prefix) and the two newest messages
_CACHE_MARK = {"type": "ephemeral"}


def for_provider(messages: list[dict[str, Any]], model: ModelInfo, *, pictures: bool = True) -> list[dict[str, Any]]:
    """What goes into the request. Without `pictures` each is replaced by a text that says that it was left out."""
    left_out = None if pictures else "this provider refused the conversation with it"
    left_out = "this model takes none" if model.images is False else left_out
    out: list[dict[str, Any]] = []
    moved: list[dict[str, Any]] = []
    for message in messages:
        if moved and message["role"] != "tool":
            out.append(_pictures_message(moved))
            moved = []
        if message["role"] == "assistant":
            out.append(_assistant(message, model))
        else:
            out.append(_with_safe_parts(message, model, moved, left_out))
    if moved:
        out.append(_pictures_message(moved))
    out = _without_nul(encodable(out))
    return _with_cache_marks(out) if model.talk.cache_marks else out


def _assistant(message: dict[str, Any], model: ModelInfo) -> dict[str, Any]:
    keys = (*_ASSISTANT_KEYS, *_EXTRA_KEYS[model.talk.send_back])
    kept = {key: copy.deepcopy(message[key]) for key in keys if message.get(key) is not None}
    if model.talk.send_back != "thought_signatures":
        for call in kept.get("tool_calls", ()):
            call.pop("provider_specific_fields", None)
    kept.setdefault("content", None if kept.get("tool_calls") else "")
    return kept


def has_pictures(messages: list[dict[str, Any]]) -> bool:
    """Whether any message holds a picture."""
    contents = [message["content"] for message in messages if isinstance(message.get("content"), list)]
    return any(part.get("type") == "image_url" for content in contents for part in content)


def _with_safe_parts(
    message: dict[str, Any], model: ModelInfo, moved: list[dict[str, Any]], left_out: str | None
) -> dict[str, Any]:
    """A message whose pictures are data, and where the provider wants them; those to move are added to `moved`."""
    if not isinstance(message.get("content"), list):
        return copy.deepcopy(message)
    move = message["role"] == "tool" and not model.talk.images_in_tool_results
    parts: list[dict[str, Any]] = []
    for part in message["content"]:
        if part.get("type") != "image_url":
            parts.append(copy.deepcopy(part))
        elif left_out is not None:
            parts.append(_text(f"[a picture was left out: {left_out}]"))
        elif not _is_data(part):
            parts.append(_text("[a picture was left out: it was not given as data]"))
        elif move:
            moved.append(copy.deepcopy(part))
            parts.append(_text(f"[picture {len(moved)} follows]"))
        else:
            parts.append(copy.deepcopy(part))
    if message["role"] == "tool" and all(part["type"] == "text" for part in parts):
        return {
            **message,
            "content": "\n".join(part["text"] for part in parts),
        }  # not all take lists
    return {**message, "content": parts}


def _is_data(part: dict[str, Any]) -> bool:
    image = part.get("image_url")
    url = image.get("url") if isinstance(image, dict) else image
    return isinstance(url, str) and url.startswith("data:image/")


def _text(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def _pictures_message(pictures: list[dict[str, Any]]) -> dict[str, Any]:
    return {"role": "user", "content": [_text("Pictures of the results above, in order:"), *pictures]}


def _without_nul(value: Any) -> Any:
    """Some providers' stores refuse NUL, and with it the whole conversation."""
    if isinstance(value, str):
        return value.replace("\0", "\ufffd")
    if isinstance(value, dict):
        return {key: _without_nul(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_without_nul(item) for item in value]
    return value


def _with_cache_marks(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Marks on the system message and on the newest others: each turn reads from the cache what the last one wrote."""
    marked = [message for message in messages if message["role"] in ("user", "tool")][-_CACHED_TAIL_MESSAGES:]
    marked += [message for message in messages[:1] if message["role"] == "system"]
    for message in marked:
        if isinstance(message["content"], str) and message["content"]:
            if message["role"] == "tool":
                message["cache_control"] = dict(_CACHE_MARK)
            else:
                message["content"] = [{**_text(message["content"]), "cache_control": dict(_CACHE_MARK)}]
        elif isinstance(message["content"], list) and message["content"]:
            message["content"][-1]["cache_control"] = dict(_CACHE_MARK)
    return messages
