"""Makes a pydantic model of a function's parameters: the schema that is offered and the check of every call.

A parameter whose type is `StudentSandbox`, `Sandbox` or `ToolContext` is filled in by the harness and is in no schema.
Whatever can't be offered to a model is a mistake of the author's, and is named with its line before any student comes.
"""

from __future__ import annotations

import inspect
import json
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import Field, TypeAdapter, create_model
from pydantic.errors import PydanticInvalidForJsonSchema, PydanticSchemaGenerationError, PydanticUndefinedAnnotation
from pydantic.fields import FieldInfo
from pydantic_core import PydanticSerializationError, ValidationError, to_jsonable_python

from karotte_gym.errors import ConfigError
from karotte_gym.sandbox.contract import Sandbox
from karotte_gym.tools.builtin import Tool
from karotte_gym.tools.context import ToolContext
from karotte_gym.tools.own_docstring import Described
from karotte_gym.tools.schemas import parameters
from karotte_gym.tools.student_sandbox import StudentSandbox

__all__ = ["OwnArguments", "Signature", "signature_of"]

Filled = Literal["sandbox", "context"]
_FILLED: dict[object, Filled] = {Sandbox: "sandbox", StudentSandbox: "sandbox", ToolContext: "context"}
_NO_TYPES: tuple[object, ...] = (Any, object, None, type(None))
_UNSCHEMABLE = (PydanticSchemaGenerationError, PydanticInvalidForJsonSchema, PydanticUndefinedAnnotation)
_KINDS_NO_SCHEMA_SAYS = {
    inspect.Parameter.VAR_POSITIONAL: "*{} can't be offered to a model: name each parameter, or take a list",
    inspect.Parameter.VAR_KEYWORD: "**{} can't be offered to a model: name each parameter, or take a dict",
    inspect.Parameter.POSITIONAL_ONLY: "{} is positional only: remove the / from the parameters",
}


class OwnArguments(Tool):
    """Arguments of an author's tool. Checked as JSON, where a date is a text and a set a list, and strictly even so."""

    @classmethod
    def checked(cls, arguments: dict[str, Any]) -> dict[str, Any]:
        """What was given, as JSON has it; defaults are left to the call."""
        return cls.from_json(arguments).model_dump(mode="json", by_alias=True, exclude_unset=True)

    @classmethod
    def from_json(cls, arguments: Mapping[str, Any]) -> OwnArguments:
        """The values. ValidationError says what does not fit; TypeError and ValueError, what is no JSON."""
        return cls.model_validate_json(json.dumps(arguments, allow_nan=False))

    def values(self) -> dict[str, Any]:
        """Parameter's name to value, defaults filled in."""
        return {str(facts.alias): getattr(self, field) for field, facts in type(self).model_fields.items()}


@dataclass(frozen=True, slots=True)
class Signature:
    """`arguments` is what a model writes, `filled` which parameters the harness fills in."""

    arguments: type[OwnArguments]
    filled: dict[str, Filled]


def signature_of(function: Callable[..., Any], described: Described, where: str, *, name: str, method: bool) -> Signature:
    """The signature of a function, or of a method less its `self`. ConfigError begins with `where`."""
    found = list(inspect.signature(function).parameters.values())[1 if method else 0 :]
    hints = _hints(function, where)
    filled: dict[str, Filled] = {}
    fields: dict[str, Any] = {}
    for parameter in found:
        if parameter.kind in _KINDS_NO_SCHEMA_SAYS:
            raise ConfigError(f"{where}: {_KINDS_NO_SCHEMA_SAYS[parameter.kind].format(parameter.name)}")
        if parameter.name not in hints:
            raise ConfigError(f"{where}: parameter {parameter.name} has no type: write {parameter.name}: str")
        kind = _FILLED.get(_bare(hints[parameter.name]))
        if kind is not None:
            filled[parameter.name] = kind
            continue
        at = f"{where}: parameter {parameter.name}"
        fields[f"argument_{len(fields)}"] = _field(parameter, hints[parameter.name], described, at)
    unknown = sorted(set(described.parameters) - {parameter.name for parameter in found})
    if unknown:
        raise ConfigError(f"{where}: the docstring describes {', '.join(unknown)}, which is no parameter")
    return Signature(_model(name, described, fields, where), filled)


def _hints(function: Callable[..., Any], where: str) -> dict[str, Any]:
    try:
        return typing.get_type_hints(function, include_extras=True)
    except Exception as error:  # an annotation is an expression of the author's
        raise ConfigError(
            f"{where}: its types can't be read ({type(error).__name__}: {error}); import them outside TYPE_CHECKING"
        ) from error


def _bare(hint: Any) -> object:
    return hint.__origin__ if typing.get_origin(hint) is Annotated else hint


def _field(parameter: inspect.Parameter, hint: Any, described: Described, at: str) -> tuple[Any, Any]:
    """Type and field of one parameter. Fields have names of ours, so that no parameter's name can be a model's method."""
    if _bare(hint) in _NO_TYPES:
        raise ConfigError(f"{at}: {hint} says nothing to a model: name what it takes, such as int or list[str]")
    facts: dict[str, Any] = {"alias": parameter.name}
    if parameter.name in described.parameters:
        facts["description"] = described.parameters[parameter.name]
    if isinstance(parameter.default, FieldInfo):
        hint = Annotated[hint, parameter.default]
    elif parameter.default is not inspect.Parameter.empty:
        facts["default"] = parameter.default
    _check_type(hint, facts, at)
    return hint, Field(**facts)


def _check_type(hint: Any, facts: dict[str, Any], at: str) -> None:
    try:
        adapter: TypeAdapter[Any] = TypeAdapter(hint)
        adapter.json_schema()
        if "default" in facts:
            adapter.validate_json(json.dumps(to_jsonable_python(facts["default"]), allow_nan=False), strict=True)
    except _UNSCHEMABLE as error:
        raise ConfigError(f"{at}: no JSON can be a {hint}: {str(error).splitlines()[0]}") from error
    except ValidationError as error:
        raise ConfigError(f"{at}: its default does not fit its type: {error.errors()[0]['msg']}") from error
    except (PydanticSerializationError, ValueError) as error:
        raise ConfigError(f"{at}: its default is no JSON: {error}") from error
    except Exception as error:  # hooks of an author's type run here
        raise ConfigError(f"{at}: its type can't be used ({type(error).__name__}: {error})") from error


def _model(name: str, described: Described, fields: dict[str, Any], where: str) -> type[OwnArguments]:
    try:
        made: type[OwnArguments] = create_model(name, __base__=OwnArguments, __doc__=described.text, **fields)
        parameters(made)
    except ValueError as error:
        raise ConfigError(f"{where}: {error}") from error
    return made
