"""The table of situations in a real machine: what a student's shell must answer, call by call."""

from __future__ import annotations

import pytest
from shell_situations import SITUATIONS, Situation, play

from karotte_gym.sandbox.contract import CommandResult, Sandbox

pytestmark = pytest.mark.machine


@pytest.mark.parametrize("situation", SITUATIONS, ids=lambda situation: situation.name)
def test_the_shell_answers_truly(situation: Situation, sandbox: Sandbox) -> None:
    def bash(command: str, timeout_s: float, restart: bool) -> CommandResult:
        return sandbox.bash(command, timeout_s=timeout_s, restart=restart)

    play(situation, bash, "/tmp/situation")
