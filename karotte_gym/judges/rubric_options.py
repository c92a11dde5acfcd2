"""What a `RubricJudge` hands on to its model: checked when the judge is made, and not by a provider in the middle of a run."""

from __future__ import annotations

import json
from collections.abc import Mapping

from karotte_gym.errors import ConfigError
from karotte_gym.models.retry import RetryPolicy

__all__ = ["check_options"]

MAX_TEMPERATURE = 100.0  # servers have limits of their own, of which 2 is usual
# What a request consists of anyway: the question, whom it is for, and what makes its answer another kind of thing.
OURS = frozenset(
    {"messages", "stream", "stream_options", "n", "model", "api_key", "api_base", "base_url", "timeout", "max_retries"}
    | {"num_retries", "client", "tools", "tool_choice", "functions", "function_call"}
)


def check_options(api_base: object, temperature: object, retries: object, extra: object) -> None:
    """ConfigError with the line to write."""
    if api_base is not None and (not isinstance(api_base, str) or not api_base):
        raise ConfigError(f'api_base must be a URL such as "http://127.0.0.1:8000/v1", not {api_base!r:.200}')
    number = isinstance(temperature, (int, float)) and not isinstance(temperature, bool) and 0 <= temperature <= MAX_TEMPERATURE
    if temperature is not None and not number:
        raise ConfigError(f"temperature must be a number from 0 to {MAX_TEMPERATURE:g}, or None, not {temperature!r:.200}")
    if not isinstance(retries, RetryPolicy):
        raise ConfigError(f"retries must be a RetryPolicy: RetryPolicy(server=5), not {retries!r:.200}")
    if extra is not None:
        _check_extra(extra)


def _check_extra(extra: object) -> None:
    if not isinstance(extra, Mapping) or not all(isinstance(name, str) for name in extra):
        raise ConfigError(f'extra must be a mapping of text: {{"seed": 1}}, not {extra!r:.200}')
    taken = sorted(OURS & extra.keys())
    if taken:
        raise ConfigError(f"extra must not hold {taken[0]}: that is the judge's own affair")
    try:
        json.dumps(dict(extra), allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise ConfigError(f"extra goes into a request as JSON, which this is not: {error}") from error
