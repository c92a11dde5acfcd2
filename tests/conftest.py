"""Shared by all tests: machines that leave their console, agent log and QMP trace behind when a test fails."""

from __future__ import annotations

import contextlib
import re
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import hypothesis
import pytest

from karotte_gym.config import Limits
from karotte_gym.sandbox.contract import MachineSpec, Sandbox

# A shell without job control starts what runs in its background with Ctrl-C ignored; tests of interrupts need it.
signal.signal(signal.SIGINT, signal.default_int_handler)

# A host that is busy for a moment is no finding. What must end in time says so itself.
hypothesis.settings.register_profile("no deadline", deadline=None)
hypothesis.settings.load_profile("no deadline")

ARTIFACTS = Path(__file__).parent.parent / "test-artifacts"
_FAILED = pytest.StashKey[bool]()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    report = yield
    if report.when == "call" and report.failed:
        item.stash[_FAILED] = True
        if (module := item.getparent(pytest.Module)) is not None:
            module.stash[_FAILED] = True
    return report


@pytest.fixture
def start_machine(request: pytest.FixtureRequest) -> Iterator[Callable[..., Any]]:
    """A function that starts a machine (arguments of `MachineSpec`) which is closed when the test ends."""
    from karotte_gym.sandbox import machines

    with contextlib.ExitStack() as stack:
        started: list[Any] = []

        def start(role: str = "student", **fields: Any) -> Sandbox:
            sandbox = machines.start(MachineSpec(role=role, **fields))  # type: ignore[arg-type]
            stack.callback(sandbox.close)
            started.append(sandbox)
            return sandbox

        yield start
        if request.node.stash.get(_FAILED, False):
            _keep_diagnostics(request.node.nodeid, started)


@pytest.fixture(scope="module")
def sandbox(request: pytest.FixtureRequest) -> Iterator[Sandbox]:
    """A student's machine with its session begun, shared by the tests of a module."""
    from karotte_gym.sandbox import machines

    with contextlib.closing(machines.start(MachineSpec(role="student"))) as machine:
        machine.start_session(Limits())
        yield machine
        if request.node.stash.get(_FAILED, False):
            _keep_diagnostics(request.node.nodeid, [machine])


def _keep_diagnostics(nodeid: str, sandboxes: list[Any]) -> None:
    directory = ARTIFACTS / re.sub(r"[^A-Za-z0-9_.-]+", "-", nodeid)
    for number, sandbox in enumerate(sandboxes):
        target = directory / str(number)
        target.mkdir(parents=True, exist_ok=True)
        sandbox.diagnostics(str(target))
