"""Shared by the unit tests of the environment."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> Iterator[object]:
    """Machines in memory in place of real ones; every one of them must be closed when the test is over."""
    from memory_sandbox import World

    from karotte_gym.sandbox import machines

    world = World()
    monkeypatch.setattr(machines, "start", world.start)
    monkeypatch.setattr(machines, "prefetch", world.prefetch)
    yield world
    assert [machine for machine in world.machines if not machine.closed] == []
