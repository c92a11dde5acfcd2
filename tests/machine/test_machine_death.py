"""Machines that end, fall silent or are left behind: always noticed, always named, never left running."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from host_load import within

from karotte_gym.config import Limits
from karotte_gym.errors import CallRefused, MachineDied
from karotte_gym.sandbox import machines
from karotte_gym.sandbox.contract import MachineSpec
from karotte_gym.sandbox.machine_sandbox import MachineSandbox

pytestmark = [pytest.mark.machine, pytest.mark.timeout(600)]
Start = Callable[..., MachineSandbox]
NOTICED_S = 60.0  # at once; a busy host takes a while to run us, and what it keeps the machine waiting is given again


def is_alive(pid: int) -> bool:
    """Whether it runs: an ended process whose parent has not yet looked is none."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


def with_session(start_machine: Start, **fields: object) -> MachineSandbox:
    sandbox = start_machine(test_hooks=True, **fields)
    sandbox.start_session(Limits())
    return sandbox


def after(seconds: float, act: Callable[[], object]) -> threading.Timer:
    timer = threading.Timer(seconds, act)
    timer.start()
    return timer


def expect_death(sandbox: MachineSandbox, cause: str, act: Callable[[], object]) -> None:
    start = time.monotonic()
    with pytest.raises(MachineDied) as caught:
        act()
    assert caught.value.cause == cause
    assert time.monotonic() - start < NOTICED_S
    with pytest.raises(MachineDied):
        sandbox.run(["/bin/true"])
    pid = sandbox.pid
    sandbox.close()
    assert not is_alive(pid)


def test_a_machine_killed_in_the_middle_of_a_step_is_noticed_and_the_next_one_works(start_machine: Start) -> None:
    sandbox = with_session(start_machine)
    after(0.5, lambda: os.kill(sandbox.pid, signal.SIGKILL))
    expect_death(sandbox, "exited", lambda: sandbox.bash("sleep 100", timeout_s=200))
    assert with_session(start_machine).bash("echo again", timeout_s=20).output == b"again\n"


@pytest.mark.parametrize("how", ["sysrq", "agent"])
def test_a_machine_crashed_from_inside_is_noticed(start_machine: Start, how: str) -> None:
    sandbox = with_session(start_machine)
    sandbox.crash(how)
    expect_death(sandbox, "exited", lambda: sandbox.bash("true", timeout_s=20))


def test_a_silent_machine_is_noticed_and_killed(start_machine: Start) -> None:
    sandbox = with_session(start_machine, silence_timeout_s=3.0)
    sandbox.crash("silence")
    expect_death(sandbox, "silent", lambda: sandbox.bash("sleep 100", timeout_s=200))


def test_a_stopped_emulator_is_a_silent_machine(start_machine: Start) -> None:
    sandbox = with_session(start_machine, silence_timeout_s=3.0)
    os.kill(sandbox.pid, signal.SIGSTOP)
    expect_death(sandbox, "silent", lambda: sandbox.bash("true", timeout_s=200))


def test_a_long_command_is_no_silence(start_machine: Start) -> None:
    sandbox = with_session(start_machine, silence_timeout_s=4.0)
    assert sandbox.bash("sleep 7; echo done", timeout_s=60).output == b"done\n"


def test_crashing_needs_a_machine_for_tests(start_machine: Start) -> None:
    sandbox = start_machine()
    with pytest.raises(CallRefused):
        sandbox.crash("sysrq")
    assert sandbox.start_session(Limits())


def test_close_from_another_thread_ends_a_step(start_machine: Start) -> None:
    sandbox = with_session(start_machine)
    after(0.5, sandbox.close)
    expect_death(sandbox, "exited", lambda: sandbox.bash("sleep 100", timeout_s=200))


def test_an_interrupted_call_leaves_the_machine_usable(start_machine: Start) -> None:
    sandbox = with_session(start_machine)
    with pytest.raises(KeyboardInterrupt):
        after(0.5, lambda: os.kill(os.getpid(), signal.SIGINT))
        sandbox.run(["/bin/sh", "-c", "sleep 5; echo late"], timeout_s=60)
    for number in range(10):
        assert sandbox.run(["/bin/echo", str(number)], timeout_s=30).stdout == f"{number}\n".encode()
    sandbox.run(["/bin/sleep", "6"], timeout_s=60)  # the late answer comes meanwhile
    assert sandbox.run(["/bin/echo", "after"], timeout_s=30).stdout == b"after\n"


HARNESS = """
import sys, time
from karotte_gym.config import Limits
from karotte_gym.sandbox import machines
from karotte_gym.sandbox.contract import MachineSpec
sandbox = machines.start(MachineSpec(role="student", test_hooks=True))
sandbox.start_session(Limits())
print(sandbox.pid, sandbox._machine.run_directory.path, flush=True)
sandbox.bash("sleep 300", timeout_s=600)
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_the_machines_of_a_killed_harness_are_gone_within_5_s(number: int) -> None:
    machines.prepare(MachineSpec(role="student", test_hooks=True))
    harness = subprocess.Popen([sys.executable, "-c", HARNESS], stdout=subprocess.PIPE, text=True)
    assert harness.stdout is not None
    pid, directory = harness.stdout.readline().split()
    assert is_alive(int(pid))
    harness.send_signal(number)
    assert within(5, lambda: not is_alive(int(pid)) and not Path(directory).exists())
    harness.wait(30)
    harness.stdout.close()


def test_a_diagnosis_can_be_written_for_the_living_and_the_dead(start_machine: Start, tmp_path: Path) -> None:
    sandbox = with_session(start_machine)
    sandbox.diagnostics(str(tmp_path / "living"))
    assert "query-status" in (tmp_path / "living" / "qmp.log").read_text()
    os.kill(sandbox.pid, signal.SIGKILL)
    sandbox.diagnostics(str(tmp_path / "dead"))
    assert {path.name for path in (tmp_path / "dead").iterdir()} == {"console.log", "emulator.log", "qmp.log"}
