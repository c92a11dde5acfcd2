"""`wake` ends the call that a process sleeps in, and leaves the process itself alone."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from unittest import mock

import pytest

from karotte_gym.guest.process_table import pinned
from karotte_gym.guest.wake import wake

SLEEPER = """
import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
print("ready", flush=True)
result = {call}
print(result, ctypes.get_errno(), flush=True)
print(sum(range(1000)), flush=True)
"""
CALLS = {
    "a read": "libc.read(os.pipe()[0], ctypes.create_string_buffer(9), 9)",
    "the opening of a pipe": "(os.mkfifo(sys.argv[1]), libc.open(sys.argv[1].encode(), 0))[1]",
    "a wait for a child": "libc.waitpid(-1, None, 0) if os.fork() else libc.prctl(1, 9) + libc.sleep(99)",  # 1: dies with us
}
Start = Callable[[str], subprocess.Popen[str]]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    started = []

    def begin(call: str) -> subprocess.Popen[str]:
        argv = [sys.executable, "-c", SLEEPER.format(call=call), f"{tmp_path}/pipe"]
        process = subprocess.Popen(argv, stdout=subprocess.PIPE, text=True)
        started.append(process)
        assert process.stdout is not None and process.stdout.readline() == "ready\n"
        return process

    yield begin
    for process in started:
        with process:
            process.kill()


def _sleeps(process: subprocess.Popen[str]) -> bool:
    with open(f"/proc/{process.pid}/stat") as file:
        return file.read().rpartition(")")[2].split()[0] == "S"


@pytest.mark.timeout(60)
@pytest.mark.parametrize("call", CALLS)
def test_the_call_ends_and_the_process_goes_on(start: Start, call: str) -> None:
    process = start(CALLS[call])
    asleep = 0
    while asleep < 5:  # in a row: on its way there it may sleep, too
        time.sleep(0.02)
        asleep = asleep + 1 if _sleeps(process) else 0
    assert wake(process.pid)
    assert process.stdout is not None
    assert [process.stdout.readline() for _ in range(2)] == ["-1 4\n", "499500\n"]


def test_a_process_that_runs_is_only_stopped_for_a_moment(start: Start, tmp_path: Path) -> None:
    process = start("all(not done for done in iter(lambda: sum(range(99_999)) > 0 and os.path.exists(sys.argv[1]), True))")
    assert all(wake(process.pid) for _ in range(5))
    (tmp_path / "pipe").touch()  # it runs until then, however late we are
    assert process.stdout is not None and process.stdout.readline() == "True 0\n"


def test_who_is_gone_can_not_be_woken(start: Start) -> None:
    process = start("0")
    process.wait()
    assert not wake(process.pid)


@pytest.mark.parametrize("number", [errno.ESRCH, errno.EINVAL, errno.ENOENT])
def test_however_the_kernel_says_it_who_is_gone_is_gone(monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    """`tests/machine/test_session.py` has the guest's kernel say it."""
    monkeypatch.setattr(os, "pidfd_open", mock.Mock(side_effect=OSError(number, "")))
    assert pinned(1) is None
    assert not wake(1)


def test_a_want_of_descriptors_is_no_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "pidfd_open", mock.Mock(side_effect=OSError(errno.EMFILE, "")))
    with pytest.raises(OSError):
        pinned(1)


WAKER = """
import sys, threading
from karotte_gym.guest import syscalls, wake
wake.STOP_S, wake.END_S = -1.0, float(sys.argv[2])
wake.ptrace = lambda request, pid: syscalls.ptrace(request, pid) if request == syscalls.PTRACE_SEIZE else None
print(wake.wake(int(sys.argv[1])), flush=True)
for _ in sys.stdin:
    threading.Thread(target=wake.see_ends).start()
"""


@pytest.mark.timeout(60)
@pytest.mark.parametrize("seen_at_once", [True, False])
def test_who_is_killed_when_it_could_not_be_stopped_is_its_parents_to_reap(start: Start, seen_at_once: bool) -> None:
    """A process that is traced to its end stays a zombie: its PID namespace, and so a session, could not end."""
    process = start("libc.sleep(1000)")
    argv = [sys.executable, "-c", WAKER, str(process.pid), "30" if seen_at_once else "-1"]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as waker:
        assert waker.stdin is not None and waker.stdout is not None and waker.stdout.readline() == "False\n"
        if not seen_at_once:
            with pytest.raises(subprocess.TimeoutExpired):
                process.wait(0.5)
        while process.poll() is None:
            waker.stdin.write("see\n")
            waker.stdin.flush()
            time.sleep(0.05)
        assert process.returncode == -9
        waker.kill()
