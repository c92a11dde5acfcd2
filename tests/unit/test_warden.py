"""The warden starts processes that never outlive the harness, whatever happens to either."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from karotte_gym.errors import MachineError
from karotte_gym.sandbox import rundir, warden, warden_main

pytestmark = pytest.mark.timeout(120)
SLEEP = ["/bin/sleep", "600"]
AS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="needs root: an ordinary user can't change users")


@pytest.fixture
def null() -> Iterator[int]:
    fd = os.open(os.devnull, os.O_RDWR)
    yield fd
    os.close(fd)


def is_alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state not in "ZX"


def comes_true(condition: Callable[[], bool], within_s: float = 30.0) -> bool:
    deadline = time.monotonic() + within_s
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True


def spawned(null: int, argv: list[str] = SLEEP, **options: object) -> warden.SpawnedProcess:
    return warden.spawn(argv, {0: null, 1: null, 2: null}, **options)  # type: ignore[arg-type]


def test_a_process_is_killed_and_waited_for_by_its_pidfd(null: int) -> None:
    process = spawned(null)
    assert is_alive(process.pid) and not process.wait(0)
    process.kill()
    assert process.wait(30)
    process.kill()
    process.release()
    process.release()
    assert process.wait(0)


def test_a_process_gets_its_descriptors_and_no_others(null: int) -> None:
    read_end, write_end = os.pipe()
    script = "ls /proc/self/fd; echo said >&9"
    process = warden.spawn(["/bin/sh", "-c", script], {0: null, 1: write_end, 2: null, 9: write_end})
    assert process.wait(30)
    os.close(write_end)
    with os.fdopen(read_end) as file:
        words = file.read().split()
    process.release()
    assert words[-1] == "said"
    assert set(words[:-1]) <= {"0", "1", "2", "3", "9"}  # 3 is the listing's own


def test_a_program_that_is_not_there_is_a_machine_error(null: int) -> None:
    with pytest.raises(MachineError, match="/does/not/exist"):
        spawned(null, ["/does/not/exist"])
    spawned(null).kill()  # and the warden still works


def status_of(process: warden.SpawnedProcess) -> dict[str, list[str]]:
    lines = Path(f"/proc/{process.pid}/status").read_text().splitlines()
    return {line.partition(":")[0]: line.partition(":")[2].split() for line in lines}


def test_a_process_has_no_new_privileges_and_bounded_resources(null: int) -> None:
    process = spawned(null, rlimits={"NOFILE": 77, "CORE": 0})
    limits = Path(f"/proc/{process.pid}/limits").read_text()
    assert status_of(process)["NoNewPrivs"] == ["1"]
    assert [line.split()[3:5] for line in limits.splitlines() if line.startswith("Max open files")] == [["77", "77"]]
    process.kill()
    process.release()


@AS_ROOT
def test_each_process_has_a_user_of_its_own_without_groups(null: int) -> None:
    first, second = spawned(null, uid=warden.OWN_UID), spawned(null, uid=warden.OWN_UID)
    users = [status_of(process)["Uid"] for process in (first, second)]
    assert len({uid for user in users for uid in user}) == 2 and "0" not in users[0] + users[1]
    assert status_of(first)["Groups"] == [] and int(status_of(first)["CapEff"][0], 16) == 0
    for process in (first, second):
        process.kill()
        process.release()


def test_a_user_namespace_with_few_users_still_gets_one(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "uid_map").write_text("0 100000 65536\n")
    real_open = open
    monkeypatch.setattr("builtins.open", lambda *_args: real_open(tmp_path / "uid_map"))
    assert warden_main.NARROW_UID_BASE <= warden_main.own_uid(4_000_001) < 65_536


def test_processes_die_with_the_warden_and_the_next_start_makes_a_new_one(null: int) -> None:
    process = spawned(null)
    assert warden._state.warden is not None
    os.kill(warden._state.warden.process.pid, signal.SIGKILL)
    assert process.wait(30)
    process.release()
    again = spawned(null)
    assert is_alive(again.pid)
    again.kill()
    again.release()


HARNESS = """
import os, sys, time
from pathlib import Path
from karotte_gym.sandbox import rundir, warden
run = rundir.create()
null = os.open(os.devnull, os.O_RDWR)
options = {"uid": warden.OWN_UID} if os.geteuid() == 0 else {}
process = warden.spawn(["/bin/sleep", "600"], {0: null, 1: null, 2: null}, directory=run.path, **options)
print(process.pid, warden._state.warden.process.pid, run.path, flush=True)
if sys.argv[1] == "exit":
    sys.exit(0)
if sys.argv[1] == "fork":  # a child that outlives the harness and holds copies of all its descriptors
    if os.fork() == 0:
        os.close(1)
        os.read(0, 1)  # until the test is over
        os._exit(0)
time.sleep(600)
"""


@pytest.mark.parametrize("end", ["kill", "exit", "fork", "term", "kill the warden as well"])
def test_nothing_is_left_of_a_harness_that_ended(end: str, tmp_path: Path) -> None:
    harness = subprocess.Popen(
        [sys.executable, "-c", HARNESS, end.split()[0]],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "KAROTTE_GYM_RUN": str(tmp_path / "run")},
    )
    assert harness.stdout is not None and harness.stdin is not None
    pid, warden_pid, directory = harness.stdout.readline().split()
    if "warden" in end:
        os.kill(int(warden_pid), signal.SIGKILL)
    if end == "term":
        harness.terminate()
    elif end != "exit":
        harness.kill()
    harness.wait(30)
    harness.stdout.close()
    assert comes_true(lambda: not is_alive(int(pid)))
    assert comes_true(lambda: not is_alive(int(warden_pid)))
    if "warden" not in end:
        assert comes_true(lambda: not Path(directory).exists())
    harness.stdin.close()


def test_a_forked_child_gets_a_warden_of_its_own_and_leaves_its_parents_alone(null: int) -> None:
    process = spawned(null)
    assert warden._state.warden is not None
    parents_warden = warden._state.warden.process.pid
    child = os.fork()
    if child == 0:
        code = 1
        try:
            own = spawned(null)
            assert warden._state.warden is not None
            code = 0 if is_alive(own.pid) and warden._state.warden.process.pid != parents_warden else 2
            warden._end_at_exit()
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert is_alive(process.pid) and is_alive(parents_warden)
    process.kill()
    process.release()


def test_two_hundred_processes_leave_no_descriptor(null: int) -> None:
    spawned(null).release()
    gc.collect()
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(200):
        process = spawned(null, ["/bin/true"])
        assert process.wait(30)
        process.release()
    assert len(os.listdir("/proc/self/fd")) <= before
    assert warden._state.warden is not None
    assert len(os.listdir(f"/proc/{warden._state.warden.process.pid}/fd")) < 12


@pytest.fixture
def base(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("KAROTTE_GYM_RUN", str(tmp_path / "run"))
    return rundir.base()


def test_run_directories_of_the_dead_go_and_those_of_the_living_stay(base: Path) -> None:
    mine = rundir.create()
    dead = subprocess.run(["/bin/sh", "-c", "echo $$"], capture_output=True, text=True, check=True).stdout.strip()
    (base / f"{dead}-12345-0").mkdir()
    (base / f"{os.getpid()}-1-0").mkdir()  # our pid, but another process' start time: the pid was recycled
    (base / "something-of-the-users").mkdir()
    assert {path.name for path in rundir.remove_stale()} == {f"{dead}-12345-0", f"{os.getpid()}-1-0"}
    assert mine.path.is_dir() and (base / "something-of-the-users").is_dir()
    mine.close()
    mine.close()
    assert not mine.path.exists()


def test_a_run_directory_held_from_another_pid_namespace_stays(base: Path) -> None:
    foreign = base / "4194000-99-0"  # no such process here
    foreign.mkdir()
    held = rundir.RunDirectory(foreign)
    assert rundir.remove_stale() == []
    held.release()
    assert rundir.remove_stale() == [foreign]


def test_a_run_directory_is_private_and_a_foreign_base_is_refused(base: Path) -> None:
    run = rundir.create()
    assert run.path.stat().st_mode & 0o777 == 0o700
    run.close()
    base.chmod(0o777)
    with pytest.raises(Exception, match="KAROTTE_GYM_RUN"):
        rundir.create()
