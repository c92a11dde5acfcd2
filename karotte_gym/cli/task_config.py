"""The option ``--task-config JSON``, which several commands share: the task's own configuration."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer

from karotte_gym.errors import ConfigError

__all__ = ["TaskConfigText", "TaskConfigTextOrConfig", "read_task_config"]

HELP = "The task's own configuration, as a JSON object."
TaskConfigText = Annotated[str | None, typer.Option("--task-config", help=HELP)]
# Of commands that read no file of settings, where --config has always been another name of it.
TaskConfigTextOrConfig = Annotated[str | None, typer.Option("--task-config", "--config", help=HELP)]


def read_task_config(text: str | None) -> dict[str, Any]:
    """What it says; empty when it was left out. ConfigError for what is no JSON object."""
    try:
        value = json.loads(text or "{}")
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"--task-config is no JSON: {error}") from error
    if not isinstance(value, dict):
        raise ConfigError(f"--task-config must be a JSON object such as '{{\"generated\": true}}', not {text!r:.200}")
    return value
