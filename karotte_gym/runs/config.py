"""`RunConfig`: everything that decides what a run measures, as one JSON file; flags of the command override it.

A key may be in it, as ``$NAME`` (best) or literally; it is never written anywhere again, shown or compared.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, SecretStr, ValidationError

from karotte_gym.agents.llm import LLMAgent
from karotte_gym.agents.rollout import RolloutLimits
from karotte_gym.errors import ConfigError
from karotte_gym.models.keys import Secrets, hidden_in
from karotte_gym.models.retry import RetryPolicy
from karotte_gym.models.stopping import StopSignal

__all__ = ["RunConfig", "differences"]

MAX_CONFIG_BYTES = 1024 * 1024
# May change when a run is resumed: none of them changes what an episode measures.
FREE_FIELDS = frozenset(
    {"episodes", "parallel", "retries", "timeout_s", "max_total_cost_usd", "max_errors_in_a_row", "api_key", "api_base"}
)


class RunConfig(BaseModel):
    """One model on one task, `episodes` times with the seeds `seed`, `seed` + 1, ..."""

    # a validation error would otherwise repeat what was given, the key too
    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    format: Literal[1] = 1
    task: str = Field(min_length=1)
    model: str = Field(min_length=1, description="litellm's name, e.g. anthropic/claude-sonnet-5")
    episodes: int = Field(default=1, ge=1, le=1_000_000)
    parallel: int = Field(default=2, ge=1, le=256, description="episodes at a time; each holds one or two machines")
    seed: int = Field(default=0, ge=0)
    task_config: dict[str, Any] = {}
    limits: RolloutLimits = RolloutLimits()
    retries: RetryPolicy = RetryPolicy()
    api_key: SecretStr | None = Field(default=None, description="$NAME; default: the provider's usual variable")
    api_base: str | None = None
    reasoning_effort: str | None = Field(default=None, description="min, max or the provider's own word")
    temperature: float | None = Field(default=None, ge=0)
    max_output_tokens: int | None = Field(default=None, ge=1)
    logprobs: bool = False
    stream: bool = False
    timeout_s: float = Field(default=600.0, gt=0, description="one attempt at one answer")
    extra: dict[str, Any] = Field(default={}, description="goes into each request as it is")
    max_total_cost_usd: float | None = Field(default=None, gt=0, description="no further episode begins above it")
    max_errors_in_a_row: int = Field(default=10, ge=1, description="episodes without a verdict; then the run gives up")

    @classmethod
    def read(cls, path: str | Path) -> dict[str, Any]:
        """The settings of a file, not checked yet: flags come on top first. ConfigError in one line."""
        path = Path(path)
        try:
            if path.stat().st_size > MAX_CONFIG_BYTES:
                raise ConfigError(f"{path} is too large for a run's configuration")
            data = json.loads(path.read_text("utf-8"))
        except OSError as error:
            raise ConfigError(f"{path} can't be read: {error.strerror}") from error
        except (ValueError, RecursionError) as error:
            raise ConfigError(f"{path} is no JSON: {error}") from error
        if not isinstance(data, dict):
            raise ConfigError(f"{path} must hold one JSON object; `karotte-gym create-run-config` writes one")
        data.pop("$comment", None)
        return data

    @classmethod
    def build(cls, settings: Mapping[str, Any]) -> RunConfig:
        """Checked settings. ConfigError names each wrong field, and no value."""
        try:
            return cls.model_validate(dict(settings))
        except ValidationError as error:
            lines = [f"{'.'.join(map(str, each['loc'])) or 'run'}: {each['msg']}" for each in error.errors()]
            raise ConfigError("wrong run configuration: " + "; ".join(lines)) from None

    def public(self) -> dict[str, Any]:
        """What may be written and shown: all but the key, with secrets in `extra` and URLs taken out."""
        data = self.model_dump(mode="json", exclude={"api_key"})
        cleaned: dict[str, Any] = self.secrets().redact_all(data)
        return cleaned

    def secrets(self) -> Secrets:
        """What must not be seen of this run. Works without a key, too."""
        key = self.api_key.get_secret_value() if self.api_key else ""
        literal = key if key and not key.startswith("$") else None
        return Secrets(literal, *hidden_in(self.extra), urls=[self.api_base])

    def agent(self, stop: StopSignal) -> LLMAgent:
        """A new agent. ConfigError for a model, level or key that is not there, before anything is started."""
        return LLMAgent(
            self.model,
            api_key=self.api_key.get_secret_value() if self.api_key else None,
            api_base=self.api_base,
            reasoning_effort=self.reasoning_effort,
            temperature=self.temperature,
            max_output_tokens=self.max_output_tokens,
            logprobs=self.logprobs,
            stream=self.stream,
            timeout_s=self.timeout_s,
            retries=self.retries,
            extra=self.extra,
            stop=stop,
        )


def differences(kept: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    """Fields that decide what is measured and differ between a run's kept configuration and a new one."""
    return sorted(name for name in {*kept, *new} if name not in FREE_FIELDS and kept.get(name) != new.get(name))
