"""`ToolContext`: what a tool on the host may know of the episode. None of it is in a schema or reaches the student."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from karotte_gym.store import ProtectedStore
    from karotte_gym.task import TaskConfig

__all__ = ["ToolContext"]


@dataclass(frozen=True, slots=True)
class ToolContext:
    """A parameter of this type is filled in by the harness, whatever its name is.

    `rng` follows the episode's seed, apart from the generator of `Task.pre_hook`: how often the student calls a tool
    changes no data of the task. `store` is shared with hooks and judges; what tools write has room of its own in it.
    """

    task_config: TaskConfig
    store: ProtectedStore
    rng: np.random.Generator
    step: int  # of the task, from 1
    seed: int
