"""Checks of what a user gives to `KarotteEnv`: wrong arguments are refused when it is made and not at the first reset."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from karotte_gym.errors import ConfigError
from karotte_gym.run_files import make_directory

__all__ = ["checked_run_dir", "config_of_options", "mapping", "must_be_bools"]


def mapping(task_config: object) -> Mapping[str, Any]:
    """A task's configuration; None is an empty one."""
    if task_config is None:
        return {}
    if not isinstance(task_config, Mapping):
        raise ConfigError(f'task_config must be a mapping such as {{"generated": True}}, not {task_config!r}')
    return task_config


def config_of_options(options: object) -> Mapping[str, Any]:
    """What `reset` is given beside the seed: ``{"task_config": {...}}``, or nothing."""
    if options is None:
        return {}
    if not isinstance(options, Mapping):
        raise ConfigError(f'reset options must be a dict such as {{"task_config": {{...}}}}, not {options!r:.200}')
    if unknown := [name for name in options if name != "task_config"]:
        raise ConfigError(f'unknown reset options {unknown!r:.200}; there is: "task_config"')
    return mapping(options.get("task_config"))


def must_be_bools(**values: object) -> None:
    """A text such as "no" would be true."""
    for name, value in values.items():
        if not isinstance(value, bool):
            raise ConfigError(f"{name} must be True or False, not {value!r:.200}")


def checked_run_dir(run_dir: object) -> str | None:
    """Made here: only making it proves that it can be made, and the first reset is too late to hear of a typo."""
    if run_dir is None or run_dir == "":
        return None
    if not isinstance(run_dir, (str, os.PathLike)):
        raise ConfigError(f'run_dir must be a path as text such as "runs", not {run_dir!r}')
    make_directory(Path(run_dir))
    return os.fspath(run_dir)
