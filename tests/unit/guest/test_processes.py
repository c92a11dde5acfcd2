"""Nothing of a user's survives `kill_everything`, whatever its processes do to be missed."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from as_user import PYTHON, UID, Answer, needs_root, nobody_left, start

from karotte_gym.guest import processes
from karotte_gym.guest.calls import Machine, Refused
from karotte_gym.guest.killer import RESERVED_UID
from karotte_gym.guest.process_table import living

pytestmark = [needs_root, pytest.mark.timeout(90)]


@pytest.fixture
def machine() -> Iterator[Machine]:
    machine = Machine()
    with nobody_left():
        yield machine
    if killer := machine.state.get("processes"):
        killer.close()


def kill(machine: Machine, timeout_s: float = 20.0) -> int:
    killed, left = processes.kill_everything(machine, UID, timeout_s)
    assert left == []
    assert living(UID) == []
    return killed


def test_nothing_to_kill_is_quickly_proven(machine: Machine) -> None:
    assert kill(machine) == 0


def test_a_sleeper_that_ignores_all_signals_is_killed_and_counted(machine: Machine) -> None:
    code = "import signal, time\nfor s in (1, 2, 3, 15): signal.signal(s, signal.SIG_IGN)\nprint('up', flush=True)\n"
    process = start(code + "time.sleep(99)")
    assert kill(machine) == 1
    assert process.wait() == -signal.SIGKILL


def test_a_stopped_process_is_killed(machine: Machine) -> None:
    process = start("import os, signal\nprint('up', flush=True)\nos.kill(os.getpid(), signal.SIGSTOP)")
    kill(machine)
    assert process.wait() == -signal.SIGKILL


RELAY = """
import os, time
print('up', flush=True)
for i in range(3):
    if os.fork() == 0: break
os.setsid()
end = time.monotonic() + 60
while time.monotonic() < end:
    os.write(1, b'.')
    if os.fork(): os._exit(0)
    time.sleep(0.002)
"""
GENERATIONS = 300  # of all relays: a list of pids from the start is long out of date


def test_relays_that_fork_and_die_are_all_caught(machine: Machine) -> None:
    """They tell of themselves: a walk over /proc may miss every one, where the dead of its kind pile up."""
    process = start(RELAY)
    assert process.stdout is not None and len(process.stdout.read(GENERATIONS)) == GENERATIONS
    kill(machine)
    process.stdout.read()  # comes to an end only when nobody is left to write


RING = """
import os, signal, time
r, w = os.pipe()
pids = []
for i in range(8):
    pid = os.fork()
    if pid == 0: break
    pids.append(pid)
if len(pids) == 8 and pid:
    for i in range(8): os.write(w, (' '.join(map(str, pids)) + chr(10)).ljust(100).encode())
    print('up', flush=True); os._exit(0)
mates = [int(x) for x in os.read(r, 100).split()]
for s in (1, 2, 3, 15): signal.signal(s, signal.SIG_IGN)
end = time.monotonic() + 60
while time.monotonic() < end:
    for mate in mates:
        try: os.kill(mate, signal.SIGCONT)
        except ProcessLookupError: pass
"""


def test_a_ring_that_wakes_its_members_dies_together(machine: Machine) -> None:
    start(RING)
    assert kill(machine) >= 8


BOMB = """
import os, resource, time
resource.setrlimit(resource.RLIMIT_NPROC, (200, 200))
print('up', flush=True)
end = time.monotonic() + 60
while time.monotonic() < end:
    try: os.fork()
    except OSError: pass
"""


def test_a_fork_bomb_at_its_limit_is_killed(machine: Machine) -> None:
    processes.prefork(machine)
    start(BOMB)
    deadline = time.monotonic() + 40
    while len(living(UID)) < 150 and time.monotonic() < deadline:
        time.sleep(0.05)
    assert len(living(UID)) >= 150, "the bomb did not go off"
    kill(machine)


def test_the_killer_works_when_the_agent_can_not_fork_any_more(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    processes.prefork(machine)
    start("import time\nprint('up', flush=True)\ntime.sleep(99)")

    def full() -> int:
        raise BlockingIOError(11, "Resource temporarily unavailable")

    monkeypatch.setattr(os, "fork", full)
    assert kill(machine) == 1


HUNTER = """
import os, signal, time
print('up', flush=True)
end = time.monotonic() + 60
while time.monotonic() < end:
    try: os.kill(-1, signal.SIGKILL)
    except ProcessLookupError: pass
"""


def test_the_killer_is_out_of_reach_of_its_victims(machine: Machine) -> None:
    """Here they share a PID namespace, so the victim may try. A helper that took the user's real uid would die."""
    processes.prefork(machine)
    helper = machine.state["processes"]._pid
    start(HUNTER)
    twin = subprocess.Popen(["/bin/sleep", "99"], user=UID)
    assert twin.wait() == -signal.SIGKILL, "the hunter does not hunt"
    kill(machine)
    for _ in range(10):
        start(HUNTER)
        kill(machine)
    assert machine.state["processes"]._pid == helper


THREADS = """
import ctypes, threading, time
said = threading.Event()
def stay():
    print('up', flush=True)
    said.set()
    time.sleep(99)
threading.Thread(target=stay).start()
said.wait()  # what follows never gives the interpreter back
ctypes.PyDLL(None).pthread_exit(None)
"""


def test_a_process_whose_first_thread_has_ended_is_alive_and_killed(machine: Machine) -> None:
    process = start(THREADS)
    deadline = time.monotonic() + 30
    while "(zombie)" not in Path(f"/proc/{process.pid}/status").read_text() and time.monotonic() < deadline:
        time.sleep(0.02)
    assert "(zombie)" in Path(f"/proc/{process.pid}/status").read_text()
    assert [found.pid for found in living(UID)] == [process.pid], "it looks dead and is not"
    assert kill(machine) == 1


def test_zombies_do_not_count(machine: Machine) -> None:
    process = start("print('up', flush=True)")
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    assert living(UID) == []
    assert kill(machine) == 0
    assert process.wait() == 0


@pytest.mark.parametrize("ids", [(UID, 0, 0), (0, UID, 0), (0, 0, UID)], ids=["real", "effective", "saved"])
def test_each_of_the_uids_makes_it_the_users(machine: Machine, ids: tuple[int, int, int]) -> None:
    process = subprocess.Popen(
        [PYTHON, "-I", "-S", "-c", f"import os, time\nos.setresuid{ids}\nprint(1, flush=True)\ntime.sleep(99)"],
        stdout=subprocess.PIPE,
    )
    try:
        assert process.stdout is not None
        process.stdout.readline()
        assert [found.pid for found in living(UID)] == [process.pid]
        kill(machine)
    finally:
        process.kill()
        process.wait()


def test_other_users_processes_are_left_alone(machine: Machine) -> None:
    other = subprocess.Popen(["/bin/sleep", "99"], user=UID + 100)
    try:
        start("import time\nprint('up', flush=True)\ntime.sleep(99)")
        kill(machine)
        assert other.poll() is None
    finally:
        other.kill()
        other.wait()


@pytest.mark.parametrize("uid", [0, RESERVED_UID, os.getuid()])
def test_the_harness_s_own_uids_are_refused(machine: Machine, uid: int) -> None:
    with pytest.raises(Refused) as refused:
        processes.METHODS["kill"](machine, Answer("kill", uid=uid, timeout_s=1).call)
    assert refused.value.kind == "refused"


@pytest.mark.parametrize("uid", [None, True, -1, 2**32, "1000", 1.0])
def test_what_is_no_uid_is_refused(machine: Machine, uid: object) -> None:
    with pytest.raises(Refused) as refused:
        processes.METHODS["kill"](machine, Answer("kill", uid=uid, timeout_s=1).call)
    assert refused.value.kind == "bad-params"


def test_a_lost_helper_is_replaced(machine: Machine) -> None:
    processes.prefork(machine)
    os.kill(machine.state["processes"]._pid, signal.SIGKILL)
    start("import time\nprint('up', flush=True)\ntime.sleep(99)")
    assert kill(machine) == 1


FREEZER = Path("/sys/fs/cgroup/freezer")


@pytest.fixture
def frozen_group() -> Iterator[Path]:
    """A group of the old freezer: what is frozen in it does not even die."""
    group = FREEZER / f"karotte-test-{os.getpid()}"
    try:
        group.mkdir()
    except OSError as error:
        pytest.skip(f"no freezer of control groups v1 to make an unkillable process with: {error}")
    yield group
    (group / "freezer.state").write_text("THAWED")
    deadline = time.monotonic() + 30
    while (group / "cgroup.procs").read_text() and time.monotonic() < deadline:
        time.sleep(0.02)
    group.rmdir()


def test_what_does_not_die_is_named_when_the_time_is_up(machine: Machine, frozen_group: Path) -> None:
    process = start("import time\nprint('up', flush=True)\ntime.sleep(99)")
    (frozen_group / "cgroup.procs").write_text(str(process.pid))
    (frozen_group / "freezer.state").write_text("FROZEN")
    begin = time.monotonic()
    answer = Answer("kill", uid=UID, timeout_s=1.0)
    assert processes.METHODS["kill"](machine, answer.call)[0] == {"killed": 1, "left": [process.pid]}
    assert time.monotonic() - begin >= 1.0  # no upper bound here: on a busy host the kernel takes its time
    (frozen_group / "freezer.state").write_text("THAWED")
    assert process.wait() == -signal.SIGKILL


@dataclass
class _Session:
    """As much of a session as killing looks at."""

    uid: int
    leader_pid: int


def test_the_leader_of_the_namespace_goes_when_its_processes_do_not(machine: Machine, frozen_group: Path) -> None:
    leader = subprocess.Popen(["/bin/sleep", "99"])
    process = start("import time\nprint('up', flush=True)\ntime.sleep(99)")
    (frozen_group / "cgroup.procs").write_text(str(process.pid))
    (frozen_group / "freezer.state").write_text("FROZEN")
    machine.session = _Session(UID, leader.pid)
    assert processes.kill_everything(machine, UID, 1.0) == (1, [process.pid])
    assert leader.wait() == -signal.SIGKILL
