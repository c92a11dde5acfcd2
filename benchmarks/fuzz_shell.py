"""Random command lines through the shell of a real machine; what is promised of every call is checked after each.

A call returns within its timeout and two seconds; the session then answers ``echo ok-MARK``, without a new shell unless
the line is one of those that may spoil a shell; the output of a call is in its own result and in no other. A failure is
printed with the line, its number and what replays it from the last new shell on.

A machine that the host gave no processor to can't be on time. How long its threads were ready and waited is read from
the kernel; a call that was late by no more than that is counted as starved, and played again when it cost the machine.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import re
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))
from benchmarks.measure import Samples, report
from benchmarks.shell_lines import BOMB, KILL_ALL, Line, random_line
from karotte_gym.config import Limits
from karotte_gym.errors import MachineDied
from karotte_gym.sandbox import machines
from karotte_gym.sandbox.contract import SLACK_S, CommandResult, MachineSpec, Sandbox
from karotte_gym.sandbox.host_delay import host_delay_s
from karotte_gym.sandbox.machine_sandbox import MachineSandbox

__all__ = ["FuzzFailure", "HostDelay", "Player", "Starved", "machine"]

MAX_SHOWN_CHARS = 2000
ANSWER_TIMEOUT_S = 10.0
SAMPLE_S = 0.1
STARVED_S = 0.5  # of a call's slack of two seconds
ROOM_TRIES = 5  # after a bomb
SPOILT_LINES = 8  # played in a spoilt shell before it is replaced: less is checked there
_MARKS = re.compile(rb"(?:out|ok)-(\d+x[0-9a-f]{10})")
_REPORT = re.compile(rb"(bash: line \d+: +\d+ Killed .*?\n)+(?=ok-)", re.DOTALL)


class FuzzFailure(AssertionError):
    """A promise that did not hold, with the line that showed it."""


class Starved(Exception):
    """The machine is gone, because the host let it wait too long for a processor."""


class HostDelay:
    """`host_delay_s` of a process, asked often, since one that has ended has no answer."""

    def __init__(self, pid: int):
        self._pid = pid
        self._waited_s = 0.0
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def total_s(self) -> float:
        """Of the thread that waited longest."""
        return self._waited_s

    def close(self) -> None:
        """Stop asking."""
        self._done.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._done.wait(SAMPLE_S):
            self._waited_s = max(self._waited_s, host_delay_s(self._pid))


@dataclass
class Player:
    """Plays lines one after another in one session. `lines_of` keeps, for the report, what made a new shell necessary."""

    sandbox: Sandbox
    seed: int
    delay: HostDelay | None = None
    first: int = 0  # the line since which the shell is the same
    spoilt: int = 0  # lines since the shell was spoilt
    new_shells: collections.Counter[str] = field(default_factory=collections.Counter)
    killed: bool = False  # all jobs were, by a line of this shell: bash may say so in a later result, as it does anywhere
    bombed: int = 0  # lines for which a bomb of forks may still run
    starved: int = 0  # calls that were late and are not held against anybody
    samples: Samples = field(default_factory=lambda: Samples("one line", unit="s", scale=1.0))

    def play(self, number: int) -> None:
        """One line and the question after it. FuzzFailure when a promise is broken."""
        line = random_line(self.seed, number)
        try:
            self._check(line, number)
        except (FuzzFailure, MachineDied) as failure:
            replay = f"--seed {self.seed} --start {self.first} -n {number - self.first + 1}"
            shown = f"line {number}: {failure}\n{line.text[:MAX_SHOWN_CHARS]!r}\nreplay: {replay}\n{self._processes()}"
            raise FuzzFailure(shown) from None

    def _processes(self) -> str:
        """The student's, and what each waits for: how a shell came to hang is seen there and nowhere else."""
        argv = ["/bin/sh", "-c", "for p in /proc/[0-9]*; do echo $(head -c 200 $p/stat) $(cat $p/syscall $p/wchan); done"]
        try:
            said = self.sandbox.run(argv, user="root", timeout_s=20.0).output.decode(errors="replace")
        except MachineDied as death:
            return f"no processes: {death}"
        return "\n".join(line for line in said.splitlines() if "(bash)" in line)[:MAX_SHOWN_CHARS]

    def _check(self, line: Line, number: int) -> None:
        result = self._timed("the line", line.text, line.mark, line.timeout_s)
        fresh = "new shell" in result.note
        lenient = self.spoilt or self.bombed
        if BOMB in line.text:
            self.bombed = SPOILT_LINES
        if line.prints and not lenient and f"out-{line.mark}\n".encode() not in result.output:
            raise FuzzFailure(f"what it printed is not in its result: {result}")
        if line.exit_code is not None and not lenient and result.exit_code != line.exit_code:
            raise FuzzFailure(f"the exit code is not {line.exit_code}: {result}")
        if fresh:
            self._is_new("the line ended the shell", number)
        self.spoilt += bool(line.spoils or self.spoilt)
        self.killed |= KILL_ALL in line.text
        self._ask(line.mark, number)
        if self.spoilt > SPOILT_LINES:
            self.renew(number)
        if self.bombed:
            self._let_the_bomb_go_on(number)

    def _let_the_bomb_go_on(self, number: int) -> None:
        """For some lines; then it is ended as a student would end it."""
        self.bombed -= 1
        if not self.bombed:
            self._timed("the end of a bomb", "kill -KILL -1", "", ANSWER_TIMEOUT_S)
            self.renew(number)

    def renew(self, number: int) -> None:
        """A new shell after line `number`."""
        self.sandbox.bash("", timeout_s=ANSWER_TIMEOUT_S, restart=True)
        self._is_new("replaced by the fuzzer", number)

    def _ask(self, mark: str, number: int) -> None:
        answer = self._timed("echo ok", f"echo ok-{mark}", mark, ANSWER_TIMEOUT_S)
        for _ in range(ROOM_TRIES if self.bombed else 0):
            if "no shell" in answer.note:
                answer = self._timed("echo ok", f"echo ok-{mark}", mark, ANSWER_TIMEOUT_S)
        if "new shell" in answer.note:
            self._is_new("the shell had ended when it was asked", number)
        said = _REPORT.sub(b"", answer.output) if self.killed else answer.output
        if said == f"ok-{mark}\n".encode() and answer.exit_code == 0:
            return
        if not self.spoilt and "new shell" not in answer.note:
            raise FuzzFailure(f"a shell that nothing has spoilt does not answer: {answer}")
        answer = self._timed("echo ok", f"echo ok-{mark}", mark, ANSWER_TIMEOUT_S, restart=True)
        self._is_new("restarted: echo was spoilt", number)
        if answer.output != f"ok-{mark}\n".encode() or answer.exit_code != 0:
            raise FuzzFailure(f"a new shell does not answer: {answer}")

    def _timed(self, stage: str, command: str, mark: str, timeout_s: float, *, restart: bool = False) -> CommandResult:
        start, waited_s = time.monotonic(), self._waited_s()
        try:
            result = self.sandbox.bash(command, timeout_s=timeout_s, restart=restart)
        except MachineDied as death:
            starved_s = self._waited_s() - waited_s
            if death.cause == "silent" and starved_s > STARVED_S:
                raise Starved(f"the host let it wait {starved_s:.1f} s") from death
            raise
        took_s = time.monotonic() - start
        self.samples.add(stage, took_s)
        if took_s > timeout_s + SLACK_S and self._waited_s() - waited_s > STARVED_S:
            self.starved += 1
        else:
            self.samples.add("over the timeout", took_s - timeout_s)
            if took_s > timeout_s + SLACK_S:
                raise FuzzFailure(f"{stage} took {took_s:.1f} s, allowed are {timeout_s} and {SLACK_S}")
        foreign = {found.decode() for found in _MARKS.findall(result.output)} - {mark}
        if foreign and not self._lies_in_files(foreign):
            raise FuzzFailure(f"{stage}: output of another call, {sorted(foreign)[:5]}: {result}")
        return result

    def _lies_in_files(self, marks: set[str]) -> bool:
        """An earlier line may have written its mark to a file (``printf ... >~]``), and this one may have read it."""
        search = ["/bin/grep", "-rqsaF", "--devices=skip"]
        return all(
            self.sandbox.run([*search, "-e", mark, "/workdir", "/tmp"], user="root", timeout_s=20.0).exit_code == 0
            for mark in marks
        )

    def _waited_s(self) -> float:
        return 0.0 if self.delay is None else self.delay.total_s()

    def _is_new(self, why: str, number: int) -> None:
        self.new_shells[why] += 1
        self.first, self.spoilt, self.killed = number + 1, 0, False


@contextlib.contextmanager
def machine(seed: int, first: int, samples: Samples) -> Iterator[Player]:
    """A player in a new machine."""
    with contextlib.ExitStack() as stack:
        sandbox = machines.start(MachineSpec(role="student"))
        stack.callback(sandbox.close)
        assert isinstance(sandbox, MachineSandbox)  # only a machine of this host has a process whose waiting can be seen
        delay = HostDelay(sandbox.pid)
        stack.callback(delay.close)
        sandbox.start_session(Limits())
        yield Player(sandbox, seed, delay, first=first, samples=samples)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-n", type=int, default=5000, help="lines")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--start", type=int, default=0, help="number of the first line")
    parser.add_argument("--keep-going", action="store_true", help="report failures and go on in a new machine")
    options = parser.parse_args()
    failures, samples = 0, Samples("one line", unit="s", scale=1.0)
    number, end, starved = options.start, options.start + options.n, 0
    while number < end:  # once, but for what took the machine with it
        with machine(options.seed, number, samples) as player:
            while number < end:
                try:
                    player.play(number)
                except Starved as delay:
                    starved += 1
                    print(f"line {number} is played again in a new machine: {delay}", flush=True)
                    break
                except FuzzFailure as failure:
                    failures += 1
                    print(f"FAILED {failure}", flush=True)
                    number = number + 1 if options.keep_going else end
                    break
                number += 1
                if number % 100 == 0:
                    print(f"{number} lines, {failures} failures, new shells: {dict(player.new_shells)}", flush=True)
            starved += player.starved
    print(f"{starved} calls were starved by the host and not judged for their time")
    over_s = max(samples.values["over the timeout"])
    ratios = {"failures": (float(failures), "<= 0"), "longest over its timeout, s": (over_s, f"<= {SLACK_S:g}")}
    return 0 if report("fuzz_shell", samples, ratios=ratios) else 1


if __name__ == "__main__":
    raise SystemExit(main())
