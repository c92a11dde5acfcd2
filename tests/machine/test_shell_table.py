"""The table of situations in a real machine: what a student's shell must answer, call by call."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from shell_situations import SITUATIONS, Situation, play

from karotte_gym.config import Limits
from karotte_gym.sandbox import machines
from karotte_gym.sandbox.contract import CommandResult, MachineSpec, Sandbox

pytestmark = pytest.mark.machine


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Sandbox]:
    machine = machines.start(MachineSpec(role="student"))
    try:
        machine.start_session(Limits())
        yield machine
    finally:
        machine.close()


@pytest.mark.parametrize("situation", SITUATIONS, ids=lambda situation: situation.name)
def test_the_shell_answers_truly(situation: Situation, sandbox: Sandbox) -> None:
    def bash(command: str, timeout_s: float, restart: bool) -> CommandResult:
        return sandbox.bash(command, timeout_s=timeout_s, restart=restart)

    play(situation, bash, "/tmp/situation")
