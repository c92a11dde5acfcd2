"""What a student's processes can do to its shell from outside: every call is answered in time, and a shell comes back."""

from __future__ import annotations

import platform
from collections.abc import Callable

import pytest
from host_load import timed_bash, within

from karotte_gym.config import Limits
from karotte_gym.sandbox.contract import Sandbox

pytestmark = [pytest.mark.machine, pytest.mark.timeout(900)]
Start = Callable[..., Sandbox]

IDLE = "for i in $(seq {count}); do sleep 1000 & done"
NICE_HOG = "(exec nice -n 19 bash -c 'while :; do :; done') >/dev/null 2>&1 &"
STOPPER = """cat > /tmp/stop.py <<'END'
import os, time
os.setsid()
known = set(os.listdir("/proc"))
while True:
    for name in set(filter(str.isdigit, os.listdir("/proc"))) - known:
        try:
            if open(f"/proc/{name}/comm").read() == "bash\\n":
                os.kill(int(name), 19)
                known.add(name)
        except OSError:
            pass
    time.sleep(0.001)
END
(exec python3 /tmp/stop.py > /dev/null 2>&1 < /dev/null &); sleep 2"""
SEGMENTS = """python3 -c '
import ctypes
libc = ctypes.CDLL(None)
libc.shmat.restype = ctypes.c_void_p
for size in (1 << 20, 1 << 16, 4096):
    for _ in range(400):
        segment = libc.shmget(0, size, 0o1600)
        if segment < 0:
            break
        address = libc.shmat(segment, None, 0)
        ctypes.memset(address, 1, size)
        libc.shmdt(ctypes.c_void_p(address))
'"""
# A program of 200 bytes, which needs no memory of its own: it makes directories in /dev/shm until it is killed.
DIRECTORIES = (
    "f0VMRgIBAQAAAAAAAAAAAAIAPgABAAAAeABAAAAAAABAAAAAAAAAAAAAAAAAAAAAAAAAAEAAOAABAAAAAAAAAAEAAAAHAAAAAAAA"
    "AAAAAAAAAEAAAAAAAAAAQAAAAAAArAAAAAAAAACsAAAAAAAAAAAQAAAAAAAAuFMAAAC/nABAAL7/AQAADwW/qgBAAP4HgD96fuPG"
    "B2H/z+vyL2Rldi9zaG0vYWFhYWFhAA=="
)


def begin(start_machine: Start) -> Sandbox:
    machine = start_machine()
    machine.start_session(Limits())
    return machine


def test_jobs_that_are_not_to_be_ended_delay_no_end(start_machine: Start) -> None:
    for _ in range(3):
        machine = begin(start_machine)
        machine.bash(IDLE.format(count=900), timeout_s=200)
        ends = [timed_bash(machine, command, 3.0) for command in ("sleep 100", "sleep 101 & sleep 102")]
        assert all(end.answer.timed_out and end.seconds < 5.0 for end in ends), ends
        if not any(end.answer.note and end.starved for end in ends):
            break
    assert not any(end.answer.note for end in ends), ends
    # One more may live; the killed take a moment.
    assert within(5.0, lambda: int(machine.bash("jobs -p | wc -l", timeout_s=60).output) in (900, 901))


def test_a_loop_that_starts_more_than_get_the_processor_is_ended_in_time(start_machine: Start) -> None:
    """Bash forks, and waits for locks of those who wait for the processor: to look at it then is to wait as well."""
    machine = begin(start_machine)
    for _ in range(2):
        answer, seconds, _ = timed_bash(machine, f"{IDLE.format(count=1800)}; wait", 10.0)  # few hosts start them all
        assert answer.timed_out and seconds < 12.0, (answer, seconds)
        machine.bash("kill -KILL -1", timeout_s=20)
        assert machine.bash("echo ok", timeout_s=60).output.endswith(b"ok\n")  # after what bash says of its jobs


def test_busy_jobs_of_many_calls_delay_no_end(start_machine: Start) -> None:
    """Each is left behind by a call of its own, and some are in the midst of an exec for long."""
    machine = begin(start_machine)
    machine.bash(f"for i in {{1..22}}; do {NICE_HOG} done", timeout_s=30)
    for _ in range(58):
        machine.bash(f"{NICE_HOG} echo left", timeout_s=20)
    answer, seconds, _ = timed_bash(machine, "sleep 100", 3.0)
    assert answer.timed_out and seconds < 5.0, (answer, seconds)
    rooms = machine.run(["/bin/ls", "/sys/fs/cgroup/student"], user="root").output.decode().split()
    assert len([name for name in rooms if name.isdigit()]) < 20
    assert machine.bash("echo ok", timeout_s=20).output == b"ok\n"


def has_a_shell_again(machine: Sandbox, tries: int) -> str:
    """The note of the first call that was answered as it should be."""
    for _ in range(tries):
        answer = machine.bash("echo ok", timeout_s=8)
        if answer.output == b"ok\n":
            return answer.note
    raise AssertionError(f"there is no shell after {tries} calls: {answer}")


def test_who_stops_each_new_shell_is_ended(start_machine: Start) -> None:
    machine = begin(start_machine)
    machine.bash(STOPPER, timeout_s=20)
    machine.bash("kill -9 $$", timeout_s=10)
    assert "all processes of the session were ended" in has_a_shell_again(machine, 6)
    assert within(5.0, lambda: machine.bash("pgrep -c python3 || true", timeout_s=20).output == b"0\n")


@pytest.mark.skipif(platform.machine() != "x86_64", reason="the program is for this processor")
def test_memory_that_no_process_owns_is_taken_away(start_machine: Start) -> None:
    machine = begin(start_machine)
    machine.bash(f"echo {DIRECTORIES} | base64 -d > /tmp/directories; chmod +x /tmp/directories", timeout_s=20)
    machine.bash("head -c 400M /dev/zero > /dev/shm/file", timeout_s=60)
    machine.bash(SEGMENTS, timeout_s=60)
    machine.bash("exec /tmp/directories", timeout_s=30)
    has_a_shell_again(machine, 8)
    assert machine.bash("head -c 50M /dev/zero | tail -c 40M | wc -c", timeout_s=30).output == b"41943040\n"
