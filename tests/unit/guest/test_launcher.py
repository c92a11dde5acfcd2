"""Launchers on this host: a real fork server, and everything between a process's start and the report of its end."""

from __future__ import annotations

import gc
import os
import signal
import struct
import subprocess
import time
from collections.abc import Iterator

import pytest

from karotte_gym.guest import confine, spawning
from karotte_gym.guest.leader import start_root_launcher
from karotte_gym.guest.spawning import FAILURE, CallFailed, Launcher, LauncherGone, Process

pytestmark = pytest.mark.skipif(os.getuid() != 0, reason="needs root: a launcher's children set their own OOM score")


@pytest.fixture
def launcher() -> Iterator[Launcher]:
    channel, pid = start_root_launcher()
    launcher = Launcher(channel)
    yield launcher
    launcher.close()
    os.waitpid(pid, 0)


def run(launcher: Launcher, argv: list[str], **options: object) -> tuple[Process, bytes]:
    read, write = os.pipe2(os.O_CLOEXEC)
    null = os.open("/dev/null", os.O_RDWR | os.O_CLOEXEC)
    try:
        settings = {"env": confine.root_env(), "cwd": "/", **options}
        process = launcher.spawn(argv, stdin=null, stdout=write, stderr=write, **settings)  # type: ignore[arg-type]
    finally:
        os.close(null)
        os.close(write)
    with open(read, "rb") as pipe:
        return process, pipe.read()


def answer(size: int) -> bytes:
    return b"x" * size


def describe() -> bytes:
    return b"%d %d" % (os.getuid(), len(os.listdir("/proc/self/fd")))


def priority() -> bytes:
    """Its own, and that of what it starts."""
    child = subprocess.run(["/bin/sh", "-c", "nice"], check=True, stdout=subprocess.PIPE)
    return b"%d %s" % (os.getpriority(os.PRIO_PROCESS, 0), child.stdout.strip())


def fail() -> bytes:
    raise ValueError("the reason")


def hang() -> bytes:
    time.sleep(60)
    return b""


def die() -> bytes:
    os.kill(os.getpid(), signal.SIGKILL)
    return b""


def test_a_program_runs_and_its_exit_code_comes_back(launcher: Launcher) -> None:
    process, output = run(launcher, ["/bin/sh", "-c", "echo hello; exit 3"])
    assert (output, process.wait(10)) == (b"hello\n", 3)


def test_a_signal_is_told_from_an_exit_code(launcher: Launcher) -> None:
    process, _ = run(launcher, ["/bin/sh", "-c", "kill -9 $$"])
    assert process.wait(10) == 137


def test_a_program_that_can_not_be_started_says_why(launcher: Launcher) -> None:
    process, _ = run(launcher, ["/no/such/program"])
    assert process.wait(10) == 127
    assert "/no/such/program" in process.failure
    process, _ = run(launcher, ["/etc/passwd"])
    assert process.wait(10) == 126
    process, _ = run(launcher, ["/bin/true"], cwd="/no/such/place")
    assert process.wait(10) == 127


def test_the_reason_ends_where_it_ends_though_the_reaper_was_there_before_the_reader() -> None:
    read, write = os.pipe()
    os.write(write, FAILURE.pack(b"F", 126, 10) + b"the reason" + struct.pack("=ci", b"X", 126))
    os.close(write)
    with Process(1, -1, read) as process:
        assert (process.wait(10), process.failure) == (126, "the reason")


def test_arguments_that_no_program_can_be_given_say_why(launcher: Launcher) -> None:
    for text in ("\ud800", "a\0b"):
        process, _ = run(launcher, ["/bin/echo", text])
        assert process.wait(10) == 126
        assert process.failure.endswith(("surrogates not allowed", "embedded null byte")), process.failure


def test_only_the_descriptors_that_were_passed_are_open(launcher: Launcher) -> None:
    read, write = os.pipe()
    os.write(write, b"through")
    with open(read), open(write):
        code = f"import os; print(sorted(map(int, os.listdir('/proc/self/fd')))[:5], os.read({read}, 10))"
        process, output = run(launcher, ["/usr/bin/python3", "-c", code], pass_fds=(read,))
    assert process.wait(10) == 0
    assert output == f"{sorted([0, 1, 2, read, 3 if read != 3 else 4])} b'through'\n".encode()


def test_nothing_of_our_environment_is_inherited(launcher: Launcher, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KEY_OF_THE_HARNESS", "secret")
    _, output = run(launcher, ["/usr/bin/env"], env={"ONLY": "this"})
    assert output == b"ONLY=this\n"


def test_a_wait_is_bounded_and_a_kill_ends_it(launcher: Launcher) -> None:
    null = os.open("/dev/null", os.O_RDWR | os.O_CLOEXEC)
    with launcher.spawn(["/bin/sleep", "60"], env={}, cwd="/", stdin=null, stdout=null, stderr=null) as process:
        os.close(null)
        assert process.wait(0.05) is None
        with open(f"/proc/{process.pid}/comm") as file:
            assert file.read().strip() in ("sleep", "karotte-launch")
        process.kill()
        assert process.wait(10) == 137
        assert process.wait(0) == 137


TRACED = "import ctypes, os, threading\ndef ask(): ctypes.CDLL(None).ptrace(0, 0, 0, 0)\n{how}; os.kill(os.getpid(), 19)"


@pytest.mark.timeout(60)
@pytest.mark.parametrize(
    "how", ["ask()", "one = threading.Thread(target=lambda: (ask(), os.kill(os.getpid(), 19))); one.start(); one.join()"]
)
def test_who_asks_its_launcher_to_trace_it_ends(launcher: Launcher, how: str) -> None:
    """It would stop at a signal until its tracer lets it go on, and the launcher has other things to do."""
    process, _ = run(launcher, ["/usr/bin/python3", "-c", TRACED.format(how=how)])
    assert process.wait(10) == 137
    assert launcher.call(answer, 3, timeout_s=10, max_bytes=3) == b"xxx"


def test_a_function_answers_from_a_process_with_nothing_but_its_pipe(launcher: Launcher) -> None:
    assert launcher.call(answer, 300_000, timeout_s=10, max_bytes=300_000) == b"x" * 300_000
    uid, descriptors = launcher.call(describe, timeout_s=10, max_bytes=100).split()
    assert (int(uid), int(descriptors)) == (0, 5)  # standard ones, the pipe, and the directory that is being read


def test_a_function_can_come_before_all_else_and_what_it_starts_does_not(launcher: Launcher) -> None:
    assert launcher.call(priority, timeout_s=10, max_bytes=100) == b"0 0"
    assert launcher.call(priority, timeout_s=10, max_bytes=100, first=True) == b"-20 0"


def test_a_function_that_does_not_answer_properly_is_an_error_and_dead(launcher: Launcher) -> None:
    with pytest.raises(CallFailed, match="the reason"):
        launcher.call(fail, timeout_s=10, max_bytes=100)
    with pytest.raises(CallFailed, match="killed"):
        launcher.call(die, timeout_s=10, max_bytes=100)
    with pytest.raises(OverflowError):
        launcher.call(answer, 100_000, timeout_s=10, max_bytes=1000)
    with pytest.raises(TimeoutError):
        launcher.call(hang, timeout_s=0.1, max_bytes=100)
    assert launcher.call(answer, 3, timeout_s=10, max_bytes=3) == b"xxx"


def test_a_request_larger_than_a_datagram_gets_through(launcher: Launcher) -> None:
    _, output = run(launcher, ["/bin/sh", "-c", 'printf %s "${#LONG}"'], env={"LONG": "y" * 100_000})
    assert output == b"100000"


def test_hundreds_of_children_leave_no_zombie_and_no_descriptor(launcher: Launcher) -> None:
    gc.collect()  # what earlier tests of this worker left to the collector is not this one's
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(200):
        process, _ = run(launcher, ["/bin/true"])
        assert process.wait(10) == 0
        process.close()
    assert len(os.listdir("/proc/self/fd")) <= before


def test_an_answer_that_came_too_late_is_not_taken_for_the_next_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """And what it was about is ended: its caller has long been told that it can't be had."""
    channel, pid = start_root_launcher()
    launcher = Launcher(channel)
    monkeypatch.setattr(spawning, "ANSWER_TIMEOUT_S", 0.3)
    before = len(os.listdir("/proc/self/fd"))
    os.kill(pid, signal.SIGSTOP)
    with open("/dev/null", "r+b") as null, pytest.raises(LauncherGone, match="no answer"):
        launcher.spawn(["/bin/sleep", "60"], env={}, cwd="/", **dict.fromkeys(("stdin", "stdout", "stderr"), null.fileno()))
    with pytest.raises(LauncherGone, match="no answer"):
        launcher.call(answer, 1, timeout_s=10, max_bytes=10)
    os.kill(pid, signal.SIGCONT)
    monkeypatch.undo()
    assert launcher.call(answer, 3, timeout_s=10, max_bytes=3) == b"xxx"
    process, output = run(launcher, ["/bin/echo", "mine"])
    assert (output, process.wait(10)) == (b"mine\n", 0)
    process.close()
    assert len(os.listdir("/proc/self/fd")) <= before
    deadline = time.monotonic() + 10
    while (left := children(pid)) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert left == []
    launcher.close()
    os.waitpid(pid, 0)


def children(pid: int) -> list[int]:
    with open(f"/proc/{pid}/task/{pid}/children") as file:
        return [int(child) for child in file.read().split()]


def test_a_launcher_that_is_gone_is_said_so() -> None:
    channel, pid = start_root_launcher()
    launcher = Launcher(channel)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    with pytest.raises(LauncherGone):
        launcher.call(answer, 1, timeout_s=10, max_bytes=10)
    launcher.close()
