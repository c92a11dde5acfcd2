"""Shared by the tests of the evidence."""

# ruff: noqa: ARG001 - `world` puts machines in memory in place
from __future__ import annotations

from pathlib import Path

import gymnasium as gym
import pytest
from memory_sandbox import World
from verifying import BASH, SUBMIT


@pytest.fixture
def directory(world: World, tmp_path: Path) -> Path:
    """Of an episode that was played and scored."""
    with gym.make("karotte/q3-revenue", run_dir=str(tmp_path / "runs")) as env:
        env.reset(seed=1)
        env.step(BASH)
        env.step(SUBMIT)
    return next((tmp_path / "runs").iterdir())
