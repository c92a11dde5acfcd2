"""What is known about models: limits, reasoning levels, prices, and what a provider needs to get its reasoning back.

Two sources of data, no code per model: what litellm ships as a file (read without importing litellm, which takes
seconds), and `data/models.json`, which corrects it and says what litellm does not. A name that neither knows runs with
safe defaults: no assumption about limits, no reasoning sent back, no cache marks.
"""

from __future__ import annotations

import functools
import importlib.util
import json
from importlib import resources
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from karotte_gym.errors import ConfigError

__all__ = ["Catalogue", "ModelInfo", "SendBack", "catalogue", "known_models", "model_info", "reasoning_level"]

SendBack = Literal["none", "thinking_blocks", "reasoning_content", "reasoning_details", "thought_signatures"]
_LITELLM_FILE = "model_prices_and_context_window_backup.json"
_OPTIONAL_LEVELS = ("minimal", "none", "xhigh", "max")  # litellm: supports_<level>_reasoning_effort
_LEVEL_ORDER = ("none", "minimal", "low", "medium", "high", "xhigh", "max")


class _Data(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Provider(_Data):
    """How one provider is to be talked to."""

    key_variables: list[str] = Field(description="environment variables that hold its key; the first one set counts")
    key_optional: bool = Field(False, description="runs without a key: local servers, or credentials of its own")
    send_back: SendBack = Field("none", description="what of a turn's reasoning the next request has to hold")
    cache_marks: bool = Field(False, description="caches a prompt only up to marks that the request sets")
    images_in_tool_results: bool = Field(False, description="else they follow in a user message")
    needs_output_limit: bool = Field(False, description="a request without an output limit is refused or cut short")
    token_ids: bool = Field(False, description="gives token ids when asked with return_token_ids")
    levels: list[str] = Field([], description="reasoning levels of its reasoning models, weakest first")


class Prefix(_Data):
    """Names that begin so go to that provider, whatever follows."""

    prefix: str = Field(pattern=r"^[a-z0-9_]+/$")
    provider: str
    note: str = ""


class Model(_Data):
    """A model to list; what is None comes from litellm's data or the provider."""

    name: str
    levels: list[str] | None = None
    send_back: SendBack | None = None
    max_output_tokens: int | None = Field(None, gt=0)
    context_tokens: int | None = Field(None, gt=0)
    images: bool | None = None


class Catalogue(_Data):
    """The file `data/models.json`; its JSON schema is written beside it."""

    format: Literal[1]
    as_of: str
    providers: dict[str, Provider]
    prefixes: list[Prefix]
    models: list[Model]


class ModelInfo(_Data):
    """All that is known about one model. None: not known, so nothing is assumed."""

    name: str
    provider: str | None
    known: bool
    max_output_tokens: int | None = None
    context_tokens: int | None = None
    levels: list[str] = []
    images: bool | None = None
    input_usd_per_million: float | None = None
    output_usd_per_million: float | None = None
    talk: Provider = Provider(key_variables=[], key_optional=True)


@functools.cache
def catalogue() -> Catalogue:
    """Our own data. ConfigError when the file is broken, with pydantic's words for where."""
    data = json.loads(resources.files("karotte_gym.models").joinpath("data/models.json").read_text("utf-8"))
    data.pop("$schema")
    return Catalogue.model_validate(data)


@functools.cache
def _litellm_data() -> dict[str, dict[str, Any]]:
    spec = importlib.util.find_spec("litellm")
    if spec is None or not spec.submodule_search_locations:
        raise ConfigError("litellm is not installed; it is a dependency of this package: pip install litellm")
    path = Path(next(iter(spec.submodule_search_locations))) / _LITELLM_FILE
    try:
        data: dict[str, dict[str, Any]] = json.loads(path.read_text("utf-8"))
    except OSError as error:
        raise ConfigError(f"this litellm ships no list of models ({_LITELLM_FILE}: {error.strerror})") from error
    return data


def known_models(every: bool = False) -> list[ModelInfo]:
    """The models of our list, or all chat models with tools that litellm knows for our providers."""
    names = [model.name for model in catalogue().models]
    if every:
        listed = set(names)
        for name, entry in _litellm_data().items():
            full = name if "/" in name else f"{entry.get('litellm_provider')}/{name}"
            usable = entry.get("mode") == "chat" and entry.get("supports_function_calling")
            if usable and _provider_of(full) is not None and full not in listed:
                listed.add(full)
                names.append(full)
    return [model_info(name) for name in names]


@functools.cache
def model_info(name: str) -> ModelInfo:
    """Everything known about `name`, which is litellm's: ``provider/model``, or a bare name that litellm knows."""
    if not name.strip() or any(character.isspace() for character in name):
        raise ConfigError(f"a model is named like anthropic/claude-sonnet-5, not {name!r}")
    full = _full_name(name)
    provider_name = _provider_of(full)
    provider = catalogue().providers[provider_name] if provider_name else Provider(key_variables=[], key_optional=True)
    entry = _litellm_entry(full)
    ours = next((model for model in catalogue().models if model.name == full), Model(name=full))
    if ours.send_back is not None:
        provider = provider.model_copy(update={"send_back": ours.send_back})
    return ModelInfo(
        name=full,
        provider=provider_name,
        known=bool(entry),
        max_output_tokens=ours.max_output_tokens or _count(entry, "max_output_tokens"),
        context_tokens=ours.context_tokens or _context(entry),
        levels=_levels(entry, provider) if ours.levels is None else ours.levels,
        images=ours.images if ours.images is not None else (entry.get("supports_vision") if entry else None),
        input_usd_per_million=_per_million(entry, "input_cost_per_token"),
        output_usd_per_million=_per_million(entry, "output_cost_per_token"),
        talk=provider,
    )


def reasoning_level(model: ModelInfo, wanted: str) -> str:
    """The provider's own name for ``min``, ``max`` or a name of its own. ConfigError for one that it has not."""
    if wanted in ("min", "max") and wanted not in model.levels:
        if not model.levels:
            raise ConfigError(f"no reasoning levels are known for {model.name}; give the provider's own name for one")
        return model.levels[0 if wanted == "min" else -1]
    if model.levels and wanted not in model.levels:
        raise ConfigError(f"{model.name} has the reasoning levels {', '.join(model.levels)}, not {wanted!r}")
    return wanted


def _full_name(name: str) -> str:
    if "/" in name:
        return name
    provider = _litellm_data().get(name, {}).get("litellm_provider")
    return f"{provider}/{name}" if provider in catalogue().providers else name


def _provider_of(full: str) -> str | None:
    return next((each.provider for each in catalogue().prefixes if full.startswith(each.prefix)), None)


def _litellm_entry(full: str) -> dict[str, Any]:
    """The entry under the full name, or under the bare one when it belongs to the same provider."""
    data = _litellm_data()
    if full in data:
        return data[full]
    provider, _, bare = full.partition("/")
    entry = data.get(bare, {})
    return entry if entry.get("litellm_provider") == provider else {}


def _levels(entry: dict[str, Any], provider: Provider) -> list[str]:
    if not entry.get("supports_reasoning"):
        return []
    named = entry.get("reasoning_effort_levels")
    if isinstance(named, list):
        return [level for level in _LEVEL_ORDER if level in named]
    levels = set(provider.levels)
    for level in _OPTIONAL_LEVELS:
        flag = entry.get(f"supports_{level}_reasoning_effort")
        if flag is True and provider.levels:
            levels.add(level)
        elif flag is False:
            levels.discard(level)
    return [level for level in _LEVEL_ORDER if level in levels]


def _count(entry: dict[str, Any], key: str) -> int | None:
    value = entry.get(key)
    return int(value) if isinstance(value, int | float) and value > 0 else None


def _context(entry: dict[str, Any]) -> int | None:
    return _count(entry, "max_input_tokens")


def _per_million(entry: dict[str, Any], key: str) -> float | None:
    value = entry.get(key)
    return round(float(value) * 1_000_000, 6) if isinstance(value, int | float) else None
