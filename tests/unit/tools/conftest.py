"""An author's tool of the test's own source, and a site to call it at."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pytest
from memory_sandbox import MemorySandbox, World
from own_tools import Load

from karotte_gym import Limits, TaskConfig, ToolContext
from karotte_gym.sandbox.contract import MachineSpec
from karotte_gym.store import ProtectedStore
from karotte_gym.tools.definition import CallSite, Definition
from karotte_gym.tools.own import load_tool
from karotte_gym.tools.own_files import package_of, tool_files

_NUMBERS = itertools.count()


@pytest.fixture
def load(tmp_path: Path) -> Load:
    """Write a file as ``tools/NAME.py`` of a folder of its own, and make a tool of it."""

    def load(source: str, name: str = "look_up") -> Definition:
        folder = tmp_path / str(next(_NUMBERS))
        (folder / "tools").mkdir(parents=True)
        (folder / "tools" / f"{name}.py").write_text(source)
        return load_tool(tool_files(folder)[name], package_of("no.such", folder))

    return load


@pytest.fixture
def site() -> CallSite:
    context = ToolContext(TaskConfig(), ProtectedStore(), np.random.default_rng(1), 1, 7)
    return CallSite(MemorySandbox(MachineSpec(role="student"), World()), Limits(command_timeout_s=5.0), context)
