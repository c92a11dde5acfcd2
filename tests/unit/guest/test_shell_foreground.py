"""The end of commands that take too long: what it ends, what it leaves, and what is told of it."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from pathlib import Path

import pytest
from as_user import needs_root
from host_load import within
from host_session import HostSession, run, sleepers

from karotte_gym.guest.process_table import children_of, pinned
from karotte_gym.guest.shell import ShellSession
from karotte_gym.guest.shell_call import _let_it_report
from karotte_gym.guest.shell_process import Shell, State
from karotte_gym.guest.standstill import Standstill

pytestmark = needs_root

FOUR_THREADS = """
import concurrent.futures, subprocess
with concurrent.futures.ThreadPoolExecutor(4) as pool:
    list(pool.map(subprocess.run, [["sleep", "1000"]] * 4))
"""
STARTER = """
import subprocess, time
while 1: subprocess.Popen(["sleep", "1000"]); time.sleep(.002)
"""


def test_what_an_ended_job_is_reported_with_is_in_no_later_result(
    made: tuple[ShellSession, HostSession, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Bash reports what we ended when it next waits for a process, which on a busy host may be after the call's last moment."""
    shell, _, _ = made
    monkeypatch.setattr("karotte_gym.guest.shell_call._let_it_report", _let_it_report_later)
    for command in ("sleep 9 | cat", "{ sleep 9; } | sleep 9", "(sleep 9; true)"):
        assert run(shell, command, timeout_s=0.2).timed_out
        for _ in range(2):
            answer = run(shell, "/bin/echo ok")
            assert (answer.output, answer.exit_code) == (b"ok\n", 0), command


@pytest.mark.parametrize("command", ["sleep 1000", " | ".join(["sleep 1000"] * 12)], ids=["one", "twelve"])
def test_who_dies_after_its_call_is_reported_in_no_later_result(
    made: tuple[ShellSession, HostSession, str], monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    """Bash comes back without the command that it waited for, which has much to give back before it is gone."""
    monkeypatch.setattr("karotte_gym.guest.shell_call.DYING_S", 30.0)  # the timer below is this host's to run
    shell, session, _ = made
    timers: dict[int, threading.Timer] = {}

    def stop_late(_: Standstill, pid: int) -> None:
        if pid not in timers:
            timers[pid] = threading.Timer(0.4, os.kill, (pid, signal.SIGKILL))
            timers[pid].start()

    monkeypatch.setattr(Standstill, "stop", stop_late)
    answer = run(shell, f"x=kept; {command}", timeout_s=0.3)
    assert answer.timed_out and not answer.note and sleepers(session), answer
    answer = run(shell, "/bin/echo $x; (exec /bin/true); /bin/echo end")
    assert (answer.output, answer.exit_code) == (b"kept\nend\n", 0)
    assert len(timers) == command.count("sleep") and not sleepers(session)


def test_a_shell_that_ends_while_it_reports_of_the_dying_keeps_no_call_waiting(
    made: tuple[ShellSession, HostSession, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The attack: a job of the student's kills the shell between two calls, and the next answer says that it timed out."""
    shell, _, _ = made
    killed: list[int] = []
    wait_ready = Shell.wait_ready

    def end_it_first(bash: Shell, deadline: float) -> State:
        if not killed:
            killed.append(bash.process.pid)
            bash.process.kill()
        return wait_ready(bash, deadline)

    with monkeypatch.context() as slow:
        slow.setattr(Standstill, "stop", lambda *_: None)
        slow.setattr("karotte_gym.guest.shell_foreground.KILL_SHELL_AFTER_S", 30.0)
        slow.setattr("karotte_gym.guest.shell_call.DYING_S", 0.1)
        assert run(shell, "sleep 1000", timeout_s=0.3).timed_out
        slow.setattr(Shell, "wait_ready", end_it_first)
        began = time.monotonic()
        answer = run(shell, "echo hello", timeout_s=20.0)
    assert killed and time.monotonic() < began + 10
    assert (answer.exit_code, answer.timed_out) == (137, False) and answer.note.startswith("the shell ended"), answer
    assert run(shell, "echo hello").output == b"hello\n"


def _let_it_report_later(shell: Shell, _deadline: float) -> None:
    _let_it_report(shell, -1.0)


def test_a_shell_that_can_not_fork_is_asked_for_no_report(made: tuple[ShellSession, HostSession, str]) -> None:
    """It would try for a quarter of a minute, and each call would wait for that."""
    shell, _, _ = made
    run(shell, "ulimit -u 0")
    assert run(shell, "sleep 9", 1.0).timed_out
    run(shell, "echo a", 10.0)  # bash itself may not know a process that it could not make, and say so
    answer = run(shell, "echo b", 10.0)
    assert (answer.output, answer.exit_code, answer.note) == (b"b\n", 0, "")


def test_a_crowd_that_can_not_be_ended_one_by_one_is_ended_at_once(
    made: tuple[ShellSession, HostSession, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each walk has time for one process, as it has for some among thousands, and the first one ignores TERM."""
    monkeypatch.setattr("karotte_gym.guest.shell_foreground.WALK_S", 0.0)
    monkeypatch.setattr("karotte_gym.guest.standstill.CROWD", 0)
    shell, session, work = made
    crowd = f"{{ trap '' TERM; echo $BASHPID > {work}/pid; sleep 1000; }} | sleep 1000 | sleep 1000"
    answer = run(shell, f"x=lost; sleep 1000 & {crowd}", 1.0)
    assert (answer.exit_code, answer.timed_out) == (None, True)
    assert answer.note.startswith("the processes were too many to be ended one by one, so all of the session were ended; ")
    assert Path(work, "pid").exists(), "they had begun"
    assert within(30, lambda: not sleepers(session))
    assert run(shell, "echo ${x-gone}").output == b"gone\n"


def test_what_is_started_while_a_command_is_ended_ends_with_it(
    made: tuple[ShellSession, HostSession, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The list of its children is out of date when it is used, since meanwhile the command has started more."""
    shell, session, _ = made

    def old_list(pid: int) -> list[int]:
        children = children_of(pid)
        if len(children) > 1:  # that of the command itself
            time.sleep(0.05)
        return children

    monkeypatch.setattr("karotte_gym.guest.standstill.children_of", old_list)
    answer = run(shell, "x=kept; sh -c 'while :; do sleep 1000 & sleep 0.01; done'", 0.5)
    assert answer.timed_out
    assert run(shell, "echo $x").output == b"kept\n"
    assert within(5, lambda: not sleepers(session))


def test_a_slow_moment_leaves_nothing_of_a_command_that_was_ended(
    made: tuple[ShellSession, HostSession, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its parent has been signalled, so no other walk would find it."""
    monkeypatch.setattr("karotte_gym.guest.shell_foreground.WALK_S", 0.0)
    shell, session, _ = made
    answer = run(shell, "x=kept; sh -c 'sleep 1000; :'", 0.5)
    assert answer.timed_out and not answer.note
    assert within(5, lambda: not sleepers(session))
    assert run(shell, "echo $x").output == b"kept\n"


@pytest.mark.parametrize(
    "command",
    [
        r"printf 'all:\n\t@sleep 1000; echo done\n' > $W/Makefile; make -C $W",
        r"""sh -c 'trap "kill \$!; exit" TERM; sh -c "sleep 1000; echo done" & wait'""",
    ],
    ids=["make", "trap"],
)
def test_who_hands_the_signal_on_leaves_nothing(
    made: tuple[ShellSession, HostSession, str], monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    """A parent that ends its children at once takes with it the way by which theirs are found. On one processor it is quick."""
    shell, session, work = made

    def pinned_late(pid: int) -> int | None:
        time.sleep(0.02)
        return pinned(pid)

    monkeypatch.setattr("karotte_gym.guest.standstill.pinned", pinned_late)
    run(shell, f"W={work}; x=kept")
    for _ in range(4):
        answer = run(shell, command, 1.0)
        assert answer.timed_out and b"done" not in answer.output, answer
        assert within(5, lambda: not sleepers(session))
    assert run(shell, "echo $x").output == b"kept\n"


def test_what_was_in_the_midst_of_a_fork_is_looked_at_again(
    made: tuple[ShellSession, HostSession, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process that runs on another processor completes its fork before it stops."""
    shell, session, _ = made
    looked: set[int] = set()

    def before_the_fork(pid: int) -> list[int]:
        first = pid not in looked
        looked.add(pid)
        return [] if first and pid != shell._supply.shell.process.pid else children_of(pid)  # type: ignore[union-attr]

    monkeypatch.setattr("karotte_gym.guest.standstill.children_of", before_the_fork)
    answer = run(shell, "x=kept; sh -c 'sleep 1000; :'", 0.5)
    assert answer.timed_out and not answer.note and looked
    assert within(5, lambda: not sleepers(session))
    assert run(shell, "echo $x").output == b"kept\n"


def test_whatever_comes_the_stopped_go_on() -> None:
    with subprocess.Popen(["/bin/cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as cat:
        with pytest.raises(RuntimeError), Standstill(os.getuid(), time.monotonic()) as still:
            still.stop_tree(cat.pid)
            assert within(5, lambda: _is_stopped(cat.pid))
            raise RuntimeError
        assert cat.communicate(b"on", timeout=30) == (b"on", None)


def test_many_threads_are_a_crowd(monkeypatch: pytest.MonkeyPatch) -> None:
    """To ask each of two thousand takes longer than a call may be late."""
    monkeypatch.setattr("karotte_gym.guest.standstill.CROWD", 10)
    go = threading.Event()
    many = [threading.Thread(target=go.wait) for _ in range(20)]
    for thread in many:
        thread.start()
    try:
        for patience_s, complete in ((0.0, False), (60.0, True)):
            still = Standstill(os.getuid(), time.monotonic() + patience_s)
            still.children(os.getpid())
            assert still.complete is complete
    finally:
        go.set()
        for thread in many:
            thread.join()


def _is_stopped(pid: int) -> bool:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"


def test_what_a_program_starts_that_has_taken_the_shells_place_ends_with_it(
    made: tuple[ShellSession, HostSession, str],
) -> None:
    shell, session, _ = made
    for _ in range(4):
        answer = run(shell, f"exec /usr/bin/python3 -c '{STARTER}'", 2.0)
        assert answer.timed_out
        assert within(5, lambda: not sleepers(session))
        assert run(shell, "echo new").output == b"new\n"


@pytest.mark.parametrize("replaces", ["", "exec"], ids=["child", "in the shell's place"])
def test_what_other_threads_have_started_ends_as_well(made: tuple[ShellSession, HostSession, str], replaces: str) -> None:
    shell, session, _ = made
    answer = run(shell, f"x=kept; {replaces} /usr/bin/python3 -c '{FOUR_THREADS}'", 2.0)
    assert answer.timed_out
    assert run(shell, "echo ${x-gone}").output == (b"gone\n" if replaces else b"kept\n")
    assert within(5, lambda: not sleepers(session))
