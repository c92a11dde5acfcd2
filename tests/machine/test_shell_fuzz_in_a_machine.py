"""A short run of the fuzzer of the shell (`benchmarks/fuzz_shell.py` plays thousands of lines) in a real machine."""

from __future__ import annotations

import os
import subprocess
import sys
import time

import pytest

from benchmarks.fuzz_shell import FuzzFailure, HostDelay, Player, Starved, machine
from benchmarks.measure import Samples
from benchmarks.shell_lines import Line, random_line
from karotte_gym.sandbox.contract import CommandResult

pytestmark = [pytest.mark.machine, pytest.mark.timeout(1200)]

LINES = int(os.environ.get("KAROTTE_FUZZ_LINES", "150"))
MAX_MACHINES = 5
SEED = int(os.environ.get("KAROTTE_FUZZ_SEED", "1"))


def test_random_lines_are_answered_in_time_truly_and_leave_a_usable_session() -> None:
    number, samples = 0, Samples("lines")
    for _ in range(MAX_MACHINES):
        with machine(SEED, number, samples) as player:
            try:
                while number < LINES:
                    player.play(number)
                    number += 1
            except Starved:  # by a host that is too busy to judge by; the line is played again
                continue
            break
    assert number == LINES and len(samples.values["the line"]) >= LINES


def test_a_machine_that_the_host_lets_wait_is_told_from_one_that_is_late() -> None:
    """Two busy processes share one processor: each waits about as long as the other runs."""
    code = "import os, time; os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})\nwhile True: pass"
    idle = subprocess.Popen(["/bin/sh", "-c", "echo; exec sleep 600"], stdout=subprocess.PIPE)
    assert idle.stdout is not None
    idle.stdout.read(1)  # and its start is nearly over before the others make it wait
    busy = [subprocess.Popen([sys.executable, "-c", code]) for _ in range(2)]
    delays = [HostDelay(process.pid) for process in (*busy, idle)]
    try:
        end = time.monotonic() + 60
        while min(delay.total_s() for delay in delays[:2]) < 0.5:
            assert time.monotonic() < end, [delay.total_s() for delay in delays]
            time.sleep(0.1)
        assert delays[2].total_s() < 0.4
    finally:
        for process in (*busy, idle):
            process.kill()
            process.wait()
        for delay in delays:
            delay.close()


def test_the_lines_of_a_seed_are_the_same_each_time_and_of_every_kind() -> None:
    lines = [random_line(5, number) for number in range(500)]
    assert lines == [random_line(5, number) for number in range(500)]
    assert lines != [random_line(6, number) for number in range(500)]
    assert len({line.mark for line in lines}) == 500
    assert sum(line.prints for line in lines) > 50 and sum(line.spoils for line in lines) > 20
    for line in lines:
        assert "\0" not in line.text and f"out-{line.mark}" not in line.text


class Forger:
    """A shell that breaks one promise."""

    def __init__(self, breach: str):
        self.breach, self.last = breach, ""

    def bash(self, command: str, *, timeout_s: float, restart: bool = False) -> CommandResult:  # noqa: ARG002
        """What a sound shell would answer to the two commands of a test, but for the breach."""
        said = command.removeprefix("echo ") if command.startswith("echo ok-") else f"out-{command}"
        if self.breach.startswith("of ") and not command.startswith("echo ok-"):
            said, self.last = f"{self.last}\n{said}", said
        output = b"" if self.breach == "silent" and not restart else f"{said}\n".encode()
        return CommandResult(output, 1 if self.breach == "exit code" else 0, timed_out=False, cut_bytes=0, duration_s=0.0)

    def run(self, argv: list[str], **options: object) -> CommandResult:  # noqa: ARG002
        """There are no processes to look at, and no mark is found in a file, unless the breach is that."""
        return CommandResult(b"", self.breach != "of a file", timed_out=False, cut_bytes=0, duration_s=0.0)


@pytest.mark.parametrize(
    ("breach", "said"),
    [("of another call", "output of another call"), ("silent", "not in its result"), ("exit code", "exit code is not 0")],
)
def test_the_fuzzer_sees_each_breach(breach: str, said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def line(_seed: int, number: int) -> Line:
        mark = f"{number}x0123456789"
        return Line(mark, mark, 1.0, prints=True, exit_code=0)

    monkeypatch.setattr("benchmarks.fuzz_shell.random_line", line)
    sound = Player(Forger("none"), 1)  # type: ignore[arg-type]
    sound.play(0)
    sound.play(1)
    reader = Player(Forger("of a file"), 1)  # type: ignore[arg-type]
    reader.play(0)
    reader.play(1)
    broken = Player(Forger(breach), 1)  # type: ignore[arg-type]
    with pytest.raises(FuzzFailure, match=said):
        for number in range(2):
            broken.play(number)
