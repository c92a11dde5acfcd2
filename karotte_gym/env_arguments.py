"""Checks of what a user gives to `KarotteEnv`: wrong arguments are refused when it is made and not at the first reset."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from karotte_gym.errors import ConfigError
from karotte_gym.transcript import make_directory

__all__ = ["checked_run_dir", "mapping"]


def mapping(task_config: object) -> Mapping[str, Any]:
    """A task's configuration; None is an empty one."""
    if task_config is None:
        return {}
    if not isinstance(task_config, Mapping):
        raise ConfigError(f'task_config must be a mapping such as {{"generated": True}}, not {task_config!r}')
    return task_config


def checked_run_dir(run_dir: object) -> str | None:
    """Made here: only making it proves that it can be made, and the first reset is too late to hear of a typo."""
    if run_dir is None or run_dir == "":
        return None
    if not isinstance(run_dir, (str, os.PathLike)):
        raise ConfigError(f'run_dir must be a path as text such as "runs", not {run_dir!r}')
    make_directory(Path(run_dir))
    return os.fspath(run_dir)
