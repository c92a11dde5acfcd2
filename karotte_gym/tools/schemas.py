"""Schemas of tools in the forms that models are offered them in, all made from one definition."""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from typing import Any

from karotte_gym.errors import ConfigError
from karotte_gym.tools.builtin import BUILTIN, Tool

__all__ = ["mcp_schemas", "openai_schemas", "signature", "tool_named"]


def tool_named(name: str) -> type[Tool]:
    """The definition; ConfigError for a name that there is none for."""
    try:
        return BUILTIN[name]
    except KeyError:
        raise ConfigError(f"there is no tool {name!r}; there are: {', '.join(BUILTIN)}") from None


def openai_schemas(names: Iterable[str]) -> list[dict[str, Any]]:
    """For chat APIs: ``{"type": "function", "function": {"name", "description", "parameters"}}`` each."""
    return [
        {"type": "function", "function": {"name": name, "description": _description(name), "parameters": _schema(name)}}
        for name in names
    ]


def mcp_schemas(names: Iterable[str]) -> list[dict[str, Any]]:
    """For the Model Context Protocol: ``{"name", "description", "inputSchema"}`` each."""
    return [{"name": name, "description": _description(name), "inputSchema": _schema(name)} for name in names]


def signature(name: str) -> str:
    """One line: the name, the arguments and their types, as it ends every error about them."""
    schema = _schema(name)
    required = schema.get("required", [])
    arguments = (
        f"{field}{'' if field in required else '?'}: {facts['type']}" for field, facts in schema["properties"].items()
    )
    return f"{name}({', '.join(arguments)})"


def _description(name: str) -> str:
    return inspect.cleandoc(tool_named(name).__doc__ or "")


def _schema(name: str) -> dict[str, Any]:
    """A fresh JSON schema without pydantic's titles and null unions, which some servers of models refuse."""
    full = tool_named(name).model_json_schema()
    properties = {field: _plain(facts) for field, facts in full["properties"].items()}
    return {
        "type": "object",
        "properties": properties,
        "required": full.get("required", []),
        "additionalProperties": False,
    }


def _plain(facts: dict[str, Any]) -> dict[str, Any]:
    choices = [choice for choice in facts.get("anyOf", []) if choice.get("type") != "null"]
    merged = {**facts, **(choices[0] if choices else {})}
    return {key: value for key, value in merged.items() if key not in ("anyOf", "default", "title")}
