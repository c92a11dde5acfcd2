"""Commands of many episodes that are broken off: they end with the episodes under way, and nothing of theirs is left."""

from __future__ import annotations

import itertools
import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest
from host_load import within

pytestmark = [pytest.mark.machine, pytest.mark.timeout(600)]
DONE = {"validate": "done: solution-pays", "redteam": "1 of "}


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("command", ["validate", "redteam"])
def test_an_interrupt_ends_the_command_and_leaves_nothing(tmp_path: Path, command: str, number: signal.Signals) -> None:
    arguments = [sys.executable, "-m", "karotte_gym.cli.main", command, "q3-revenue"]
    began = subprocess.Popen(
        arguments, env={**os.environ, "TMPDIR": str(tmp_path)}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    try:
        assert began.stdout is not None
        before = list(itertools.takewhile(lambda line: DONE[command] not in line, began.stdout))
        assert began.poll() is None, "".join(before)
        if command == "validate":
            assert within(120, lambda: any(tmp_path.iterdir())), "it has something to leave behind"
        process = psutil.Process(began.pid)
        assert within(120, lambda: _machines(process))
        machines = _machines(process)
        began.send_signal(number)
        said, _ = began.communicate(timeout=120)  # all that it was to play takes several times as long
    finally:
        began.kill()
    assert began.returncode == 128 + number, said
    assert "Traceback" not in said
    assert not list(tmp_path.iterdir())
    assert within(10, lambda: not any(machine.is_running() for machine in machines))


def _machines(process: psutil.Process) -> list[psutil.Process]:
    return [child for child in process.children(recursive=True) if "qemu" in child.name()]
