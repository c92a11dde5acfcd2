"""Schemas of tools in the forms that models are offered them in, all made from one definition.

A schema must be understood by every server of models, so it is of the plainest kind: no references, no titles, no
unions with null. Some servers refuse these, others drop the whole tool in silence.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

from karotte_gym.tools.builtin import Tool

__all__ = ["description", "mcp_schemas", "openai_schemas", "parameters", "signature"]

_DEFINED = "#/$defs/"
_DROPPED = ("title", "$defs", "discriminator")
_NULL = {"type": "null"}


def openai_schemas(tools: Mapping[str, type[Tool]]) -> list[dict[str, Any]]:
    """For chat APIs: ``{"type": "function", "function": {"name", "description", "parameters"}}`` each."""
    return [
        {"type": "function", "function": {"name": name, "description": description(tool), "parameters": parameters(tool)}}
        for name, tool in tools.items()
    ]


def mcp_schemas(tools: Mapping[str, type[Tool]]) -> list[dict[str, Any]]:
    """For the Model Context Protocol: ``{"name", "description", "inputSchema"}`` each."""
    return [{"name": name, "description": description(tool), "inputSchema": parameters(tool)} for name, tool in tools.items()]


def signature(name: str, tool: type[Tool]) -> str:
    """One line: the name, the arguments and their types, as it ends every error about them."""
    schema = parameters(tool)
    required = schema["required"]
    arguments = (f"{field}{'' if field in required else '?'}: {_type(facts)}" for field, facts in schema["properties"].items())
    return f"{name}({', '.join(arguments)})"


def description(tool: type[Tool]) -> str:
    """What the model reads of the tool."""
    return inspect.cleandoc(tool.__doc__ or "")


def parameters(tool: type[Tool]) -> dict[str, Any]:
    """A fresh JSON schema of the arguments. ValueError when it can't be written without references."""
    full = tool.model_json_schema()
    definitions = full.get("$defs", {})
    return {
        "type": "object",
        "properties": {field: _plain(facts, definitions) for field, facts in full.get("properties", {}).items()},
        "required": full.get("required", []),
        "additionalProperties": False,
    }


def _plain(facts: dict[str, Any], definitions: dict[str, Any], inside: tuple[str, ...] = ()) -> dict[str, Any]:
    """`facts` with references written out, without titles, null unions and null defaults. `inside`: definitions above."""
    if "$ref" in facts:
        name = facts["$ref"].removeprefix(_DEFINED)
        if name in inside:
            raise ValueError(f"the type {name} contains itself, which no tool's schema can say")
        others = {key: value for key, value in facts.items() if key != "$ref"}
        return _plain({**definitions[name], **others}, definitions, (*inside, name))
    result: dict[str, Any] = {}
    for key, value in facts.items():
        if key == "properties":
            result[key] = {name: _plain(inner, definitions, inside) for name, inner in value.items()}
        elif key in ("anyOf", "oneOf", "allOf", "prefixItems"):
            result[key] = [_plain(inner, definitions, inside) for inner in value if inner != _NULL]
        elif key in ("items", "additionalProperties", "contains", "not") and isinstance(value, dict):
            result[key] = _plain(value, definitions, inside)
        elif key not in _DROPPED and not (key == "default" and value is None):
            result[key] = value
    return _without_a_choice_of_one(result)


def _without_a_choice_of_one(facts: dict[str, Any]) -> dict[str, Any]:
    choices = facts.get("anyOf", [])
    if len(choices) != 1:
        return facts
    return {**{key: value for key, value in facts.items() if key != "anyOf"}, **choices[0]}


def _type(facts: dict[str, Any]) -> str:
    """The type in a word, as far as there is one."""
    if "enum" in facts or "const" in facts:
        return " | ".join(repr(value) for value in facts.get("enum", [facts.get("const")]))
    if "type" in facts:
        return f"array of {_type(facts['items'])}" if facts["type"] == "array" and facts.get("items") else str(facts["type"])
    choices = facts.get("anyOf") or facts.get("oneOf") or []
    return " | ".join(dict.fromkeys(_type(choice) for choice in choices)) or "anything"
