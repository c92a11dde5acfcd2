"""Each limit in real machines, held by the kernel in one and by the watchdog in another: the same attacks on both."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from host_load import timed_bash, within

from karotte_gym.config import FileLimit, Limits
from karotte_gym.errors import CallRefused
from karotte_gym.sandbox.contract import Contract, Sandbox

MIB = 1 << 20
Start = Callable[..., Sandbox]
pytestmark = [pytest.mark.machine, pytest.mark.timeout(400)]

both = pytest.mark.parametrize("use_cgroups", [True, False], ids=["kernel", "watchdog"])

TAKE = "b = []\nfor i in range({count}): b.append(bytearray(b'1') * (1 << 20))\nprint('ALL')"
MEMORY_FILE = "import os\nfd = os.memfd_create('x')\nfor i in range({count}): os.write(fd, bytes(1 << 20))\nprint('ALL')"
SEGMENTS = """
import ctypes
libc = ctypes.CDLL(None, use_errno=True); libc.shmat.restype = ctypes.c_void_p
for i in range({count}):
    key = libc.shmget(0, 1 << 20, 0o1600)
    if key < 0: raise SystemExit('refused')
    at = libc.shmat(key, None, 0); ctypes.memset(at, 1, 1 << 20); libc.shmdt(ctypes.c_void_p(at))
print('ALL')
"""
FORK = """
import os, time
made = 0
for i in range({count}):
    try:
        if os.fork() == 0: time.sleep(30); os._exit(0)
    except OSError: break
    made += 1
print('MADE', made, flush=True)
time.sleep({after})
print('ALIVE', flush=True)
"""

CROWD = "i=0; while [ $i -lt {count} ]; do sleep 1000 & i=$((i+1)); done; wait"

FILL = """
import os
for i in range(3000):
    try:
        if os.fork() == 0: break
    except OSError: break
while True: pass
"""


def begin(start_machine: Start, use_cgroups: bool, **limits: object) -> tuple[Sandbox, dict[str, Contract]]:
    machine = start_machine(test_hooks=True, use_cgroups=use_cgroups)
    contracts = machine.start_session(Limits(**limits))  # type: ignore[arg-type]
    return machine, {contract.resource: contract for contract in contracts}


def python(machine: Sandbox, code: str, **options: float) -> str:
    return machine.run(["/usr/bin/python3", "-c", code], timeout_s=60, **options).output.decode()  # type: ignore[arg-type]


@both
def test_the_contracts_say_what_the_kernel_did(start_machine: Start, use_cgroups: bool) -> None:
    _, contracts = begin(start_machine, use_cgroups)
    expected = "prevented" if use_cgroups else "detected_and_reaped"
    assert contracts["memory"].enforcement == contracts["processes"].enforcement == expected
    assert contracts["disk_bytes"].enforcement == contracts["disk_files"].enforcement == "prevented"
    assert contracts["network"].enforcement == "prevented"
    assert all(contract.evidence for contract in contracts.values())
    assert contracts["processes"].limit == 2048
    memory = contracts["memory"].limit
    assert memory is not None and 300 * MIB < memory < 400 * MIB
    disk = contracts["disk_bytes"].limit
    assert disk is not None and 1800 * MIB < disk < 2048 * MIB


@both
@pytest.mark.parametrize("code", [TAKE, MEMORY_FILE, SEGMENTS], ids=["own", "memory file", "segments"])
def test_memory_of_every_kind_is_bounded_and_less_of_it_is_not(start_machine: Start, use_cgroups: bool, code: str) -> None:
    machine, _ = begin(start_machine, use_cgroups, memory_bytes=128 * MIB)
    assert "ALL" in python(machine, code.format(count=24))
    assert "ALL" not in python(machine, code.format(count=400))
    assert machine.bash("echo alive", timeout_s=30).output == b"alive\n"


@both
def test_a_group_over_its_memory_dies_together(start_machine: Start, use_cgroups: bool) -> None:
    """The attack: a small parent waits for the kernel to kill its large child, and goes on with what it has."""
    machine, _ = begin(start_machine, use_cgroups, memory_bytes=96 * MIB)
    machine.bash("(sleep 300; echo survived) >/workdir/survivor 2>&1 &", timeout_s=20)
    python(machine, TAKE.format(count=300))
    result = machine.run(["/bin/sh", "-c", "pgrep -c sleep"], user="root", timeout_s=20)
    assert result.output == b"0\n"


@both
def test_files_in_memory_count_and_their_room_is_bounded(start_machine: Start, use_cgroups: bool) -> None:
    machine, contracts = begin(start_machine, use_cgroups)
    memory = contracts["memory"].limit
    assert memory is not None
    fill = "head -c 4G /dev/zero >/dev/shm/fill; stat -c %s /dev/shm/fill"
    result = machine.run(["/bin/sh", "-c", fill], timeout_s=60)
    assert b"No space left" in result.stderr
    assert int(result.stdout) <= memory // 2
    flood = "for i in $(seq 20000); do : > /dev/shm/$i || break; done 2>/dev/null; ls /dev/shm | wc -l"
    assert int(machine.run(["/bin/bash", "-c", flood], timeout_s=60).output.split()[-1]) < 9000
    assert machine.bash("echo alive", timeout_s=30).output == b"alive\n"


@both
def test_processes_and_threads_are_bounded(start_machine: Start, use_cgroups: bool) -> None:
    machine, _ = begin(start_machine, use_cgroups, process_count=64)
    made = int(python(machine, FORK.format(count=300, after=0)).split()[1])
    assert made < 64
    machine.kill_processes(1000)
    threads = (
        "import threading, time\nmade = 0\n"
        "try:\n"
        "    while made < 300: threading.Thread(target=time.sleep, args=(5,), daemon=True).start(); made += 1\n"
        "except RuntimeError: pass\n"
        "print(made, flush=True); import os; os._exit(0)"
    )
    assert int(python(machine, threads)) < 64


@both
def test_as_many_may_run_as_the_contract_says(start_machine: Start, use_cgroups: bool) -> None:
    """What the kernel allows a user by itself follows the machine's memory: 1,830 in the smallest of ours."""
    machine, contracts = begin(start_machine, use_cgroups)
    assert contracts["processes"].limit == 2048
    code = (
        "import os, threading, time\nmade = 0\nthreading.stack_size(65536)\n"
        "try:\n"
        "    while made < 2000: threading.Thread(target=time.sleep, args=(60,), daemon=True).start(); made += 1\n"
        "except RuntimeError: pass\n"
        "print(made, flush=True); os._exit(0)"
    )
    assert int(python(machine, code)) == 2000


def test_more_processes_than_allowed_are_reaped_by_the_watchdog_alone(start_machine: Start) -> None:
    """RLIMIT_NPROC stands behind it; here the limit is lowered under processes that are there already."""
    machine, _ = begin(start_machine, False)
    machine.bash("for i in $(seq 30); do sleep 100 & done; echo $(jobs -p | wc -l)", timeout_s=20)
    machine.limit_resources(process_count=10)
    result = machine.run(["/bin/sh", "-c", "sleep 2; pgrep -c sleep"], user="root", timeout_s=20)
    assert int(result.output) <= 1  # its own


@both
def test_limits_change_while_the_session_runs(start_machine: Start, use_cgroups: bool) -> None:
    machine, contracts = begin(start_machine, use_cgroups)
    before = machine.get_resource_limits()
    assert before["memory_bytes"] == contracts["memory"].limit
    changed = machine.limit_resources(memory_bytes=100 * MIB, file=FileLimit(total_bytes=20 * MIB, count=500))
    assert {contract.resource: contract.limit for contract in changed} == {
        "memory": 100 * MIB, "disk_bytes": 20 * MIB, "disk_files": 500,
    }  # fmt: skip
    now = machine.get_resource_limits()
    assert now == {**before, "memory_bytes": 100 * MIB, "file_bytes": 20 * MIB, "file_count": 500}
    assert "ALL" not in python(machine, TAKE.format(count=250))
    (lifted,) = machine.limit_resources(memory_bytes=None)
    assert lifted.limit is None
    assert machine.get_resource_limits()["memory_bytes"] is None
    assert "ALL" in python(machine, TAKE.format(count=150))


def test_a_quota_counts_the_students_files_and_nobody_elses(start_machine: Start) -> None:
    machine, _ = begin(start_machine, True)
    machine.put_file("/workdir/from-root", bytes(8 * MIB))
    machine.limit_resources(file=FileLimit(total_bytes=4 * MIB, count=100))
    wrote = machine.run(["/bin/sh", "-c", "head -c 3M /dev/zero >/workdir/mine && echo fits"], timeout_s=30)
    assert wrote.output == b"fits\n"
    more = machine.run(["/bin/sh", "-c", "head -c 3M /dev/zero >/tmp/more"], timeout_s=30)
    assert b"quota" in more.output.lower()
    flood = machine.run(["/bin/bash", "-c", "for i in $(seq 300); do : >/var/tmp/$i || exit 9; done"], timeout_s=30)
    assert flood.exit_code == 9
    machine.put_file("/workdir/root-again", b"root has no quota")


def test_a_full_disk_leaves_root_its_reserve(start_machine: Start) -> None:
    machine, _ = begin(start_machine, True)
    machine.limit_resources(file=FileLimit())
    machine.run(
        ["/bin/sh", "-c", "fallocate -l 4G /workdir/a; i=0; while fallocate -l 8M /workdir/$i; do i=$((i+1)); done"],
        timeout_s=60,
    )
    machine.put_file("/workdir/roots", bytes(4 * MIB))
    assert machine.get_file("/workdir/roots", max_bytes=8 * MIB) == bytes(4 * MIB)


@both
def test_an_exhausted_machine_still_answers_and_still_ends_its_session(start_machine: Start, use_cgroups: bool) -> None:
    machine, _ = begin(start_machine, use_cgroups)
    bomb = "b() { b | b & }; b 2>/dev/null; head -c 3G /dev/zero >/dev/shm/x 2>/dev/null; fallocate -l 1900M /workdir/x"
    machine.bash(f"setsid bash -c '{bomb}' >/dev/null 2>&1 </dev/null & sleep 2", timeout_s=30)
    assert machine.get_resource_limits()["process_count"] == 2048
    machine.end_session(30)
    assert machine.run(["/usr/bin/id", "-u"], user="root").output == b"0\n"


def test_limits_need_a_session(start_machine: Start) -> None:
    machine = start_machine(test_hooks=True)
    with pytest.raises(CallRefused) as refusal:
        machine.limit_resources(process_count=5)
    assert refusal.value.kind == "no-session"


@both
@pytest.mark.parametrize("bomb", [":(){ :|:& };:", f"python3 -c '{FILL}' &"], ids=["bomb", "busy"])
def test_a_session_full_of_processes_has_a_shell_again(start_machine: Start, use_cgroups: bool, bomb: str) -> None:
    """The shell ends while the process table is full and every slot of it wants the processor."""
    machine, _ = begin(start_machine, use_cgroups)
    machine.bash(bomb, timeout_s=5.0)
    machine.bash("sleep 2; exit 3", timeout_s=10.0)
    answer = machine.bash("echo ok", timeout_s=30.0)
    assert answer.output == b"ok\n", answer
    assert machine.bash("echo again", timeout_s=10.0).output == b"again\n"


COUNT = "bash -c 'SECONDS=0; n=0; while ((SECONDS < 3)); do n=$((n+1)); done; echo $n'"


def test_what_outlived_its_call_gives_way_to_the_next(start_machine: Start) -> None:
    """Beside sixty busy processes a command gets a sixtieth of the processor: that is what one started among them counts."""
    machine, _ = begin(start_machine, use_cgroups=True)
    machine.bash(f"for i in {{1..60}}; do while :; do :; done & done; {COUNT} > among &", timeout_s=20)
    beside = int(machine.bash(COUNT, timeout_s=60).output)
    machine.bash("while [ ! -s among ]; do sleep 0.2; done", timeout_s=100)
    among = int(machine.bash("cat among", timeout_s=20).output)
    assert beside > 5 * among
    machine.bash("kill -KILL -1", timeout_s=20)
    machine.bash(":; :", timeout_s=20)
    rooms = machine.run(["/bin/ls", "/sys/fs/cgroup/student"], user="root").output.decode().split()
    assert len([name for name in rooms if name.isdigit()]) <= 2
    machine.end_session()


@pytest.mark.parametrize("count", [20, 40, 700, 1800])
def test_a_command_of_many_processes_is_ended_in_time(start_machine: Start, count: int) -> None:
    """To end them one by one takes a millisecond each when emulated: the answer would come late, or the machine be given up."""
    machine, _ = begin(start_machine, use_cgroups=True)
    for _ in range(3):
        machine.bash("x=kept", timeout_s=20)
        answer, seconds, starved = timed_bash(machine, f"sh -c '{CROWD.format(count=count)}'", 15.0)
        assert answer.timed_out and seconds < 15 + 2, (answer, seconds)
        kept = "" if answer.note else "kept"
        assert machine.bash("echo $x", timeout_s=60).output.decode() == f"{kept}\n"
        assert within(5.0, lambda: machine.bash("pgrep -c sleep", timeout_s=60).output == b"0\n")  # the killed take a moment
        if kept or count > 20 or not starved:
            break
    assert kept or count > 20, answer
    machine.end_session()
