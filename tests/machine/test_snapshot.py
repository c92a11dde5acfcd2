"""Snapshots and their clones: private, unpredictable, unpoisoned, rebuilt when damaged, and gone without a trace."""

from __future__ import annotations

import dataclasses
import gc
import mmap
import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from karotte_gym.config import Hardware, Limits
from karotte_gym.errors import ConfigError, MachineDied
from karotte_gym.sandbox import cache, machines, manifest, rundir, snapshot
from karotte_gym.sandbox.contract import MachineSpec, Sandbox
from karotte_gym.sandbox.machine_sandbox import MachineSandbox
from karotte_gym.sandbox.progress import silent
from karotte_gym.sandbox.runtimes import qemu, qemu_command

pytestmark = [pytest.mark.machine, pytest.mark.timeout(600)]
Start = Callable[..., MachineSandbox]
KIB = 1024
MAX_PRIVATE_KIB = 64 * KIB  # of an idle clone, as the issue asks


def shell(sandbox: Sandbox, command: str) -> str:
    return sandbox.bash(command, timeout_s=30).output.decode()


def test_two_clones_share_nothing_that_a_student_could_foresee(start_machine: Start) -> None:
    seen = []
    for sandbox in (start_machine(), start_machine()):
        sandbox.start_session(Limits())
        question = (
            "echo $RANDOM$RANDOM$RANDOM; head -c 16 /dev/urandom | od -An -tx1; hostname; cat /proc/sys/kernel/random/uuid"
        )
        seen.append(shell(sandbox, question).split("\n")[:4])
    assert all(first != second for first, second in zip(*seen, strict=True))


def test_a_clone_knows_the_time(start_machine: Start) -> None:
    sandbox = start_machine()
    sandbox.start_session(Limits())
    before = time.time()
    told = float(shell(sandbox, "date +%s.%N"))
    assert before - 1 <= told <= time.time() + 1


def test_what_one_clone_writes_no_other_sees(start_machine: Start) -> None:
    first, second = start_machine(), start_machine()
    for sandbox in (first, second):
        sandbox.start_session(Limits())
    shell(first, "echo mine > /workdir/here; sync")
    assert shell(second, "ls /workdir/here 2>&1; true").count("No such file")
    assert shell(first, "cat /workdir/here") == "mine\n"


def test_a_clones_emulator_cannot_write_the_template_memory(start_machine: Start) -> None:
    path = f"/proc/{start_machine().pid}/fd/{qemu_command.RAM}"
    fd = os.open(path, os.O_RDWR)  # opening is allowed, also to the emulator: only the seal holds
    try:
        with pytest.raises(PermissionError):
            os.pwrite(fd, b"poison", 0)
        with pytest.raises(PermissionError):
            mmap.mmap(fd, mmap.PAGESIZE, mmap.MAP_SHARED, mmap.PROT_READ | mmap.PROT_WRITE)
        with pytest.raises(PermissionError):
            os.ftruncate(fd, 0)
    finally:
        os.close(fd)


def status(pid: int) -> dict[str, str]:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return {line.partition(":")[0]: line.partition(":")[2].strip() for line in lines}


def test_the_emulator_is_confined(start_machine: Start) -> None:
    pid = start_machine().pid
    facts = status(pid)
    assert facts["Seccomp"] == "2" and facts["NoNewPrivs"] == "1" and int(facts["CapEff"], 16) == 0
    links = [os.readlink(path) for path in Path(f"/proc/{pid}/fd").iterdir()]
    inodes = {link[8:-1] for link in links if link.startswith("socket:")}
    for table in ("tcp", "tcp6", "udp", "udp6", "raw", "packet"):
        lines = Path(f"/proc/{pid}/net/{table}").read_text().split()
        assert not inodes & set(lines), f"the emulator has a {table} socket"
    unix = [line.split() for line in Path(f"/proc/{pid}/net/unix").read_text().splitlines()[1:]]
    assert all(len(line) == 7 for line in unix if line[6] in inodes), "a socket of the emulator has a name"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can change users")
def test_the_emulator_runs_as_an_unprivileged_user_of_its_own(start_machine: Start) -> None:
    users = [status(start_machine().pid)["Uid"].split() for _ in range(2)]
    assert len(set(users[0])) == len(set(users[1])) == 1 and users[0] != users[1] and "0" not in users[0]
    assert status(start_machine().pid)["Groups"] == ""


def private_kib(pid: int) -> int:
    rollup = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return sum(int(line.split()[1]) for line in rollup if line.startswith(("Private_Dirty", "Private_Hugetlb")))


def test_an_idle_clone_costs_little_private_memory(start_machine: Start) -> None:
    start_machine()  # a second one: what all clones share is not private to any
    sandbox = start_machine()
    sandbox.start_session(Limits())
    assert private_kib(sandbox.pid) <= MAX_PRIVATE_KIB


def test_a_prefetched_machine_can_be_taken_once(start_machine: Start) -> None:
    start_machine()
    prefetch = machines.prefetch(MachineSpec(role="student"))
    sandbox = prefetch.take()
    try:
        assert sandbox.start_session(Limits())
    finally:
        sandbox.close()
    with pytest.raises(Exception, match="taken or cancelled"):
        prefetch.take()


def emulators() -> set[int]:
    found = subprocess.run(["pgrep", "-f", "-x", ".*-name karotte-gym.*"], capture_output=True, text=True, check=False)
    children = {int(pid) for pid in found.stdout.split()}
    return {pid for pid in children if Path(f"/proc/{pid}").exists() and is_mine(pid)}


def is_mine(pid: int) -> bool:
    try:
        if status(pid)["State"].startswith(("Z", "X")):  # ended; its parent has not yet looked
            return False
        parent = int(status(pid)["PPid"])
        return int(status(parent)["PPid"]) == os.getpid()  # harness, warden, machine
    except (FileNotFoundError, ProcessLookupError, KeyError):
        return False


def test_a_cancelled_prefetch_leaves_no_machine(start_machine: Start) -> None:
    start_machine()
    before = emulators()
    prefetch = machines.prefetch(MachineSpec(role="student"))
    prefetch.cancel()
    prefetch.cancel()
    prefetch._thread.join(60)
    assert emulators() == before


def test_machines_leave_no_process_descriptor_or_file(start_machine: Start) -> None:
    start_machine()
    gc.collect()
    descriptors, processes = len(os.listdir("/proc/self/fd")), emulators()
    directories = sorted(own_run_directories())
    for _ in range(5):
        sandbox = machines.start(MachineSpec(role="student"))
        sandbox.close()
        sandbox.close()
    assert (len(os.listdir("/proc/self/fd")), emulators()) == (descriptors, processes)
    assert sorted(own_run_directories()) == directories


def own_run_directories() -> list[str]:
    return [path.name for path in rundir.base().iterdir() if path.name.startswith(f"{os.getpid()}-")]


def test_a_garbage_collected_sandbox_leaves_no_machine(start_machine: Start) -> None:
    start_machine()
    sandbox = machines.start(MachineSpec(role="student"))
    pid = sandbox.pid  # type: ignore[attr-defined]
    assert pid in emulators()
    del sandbox
    gc.collect()
    assert pid not in emulators()


def test_a_forked_child_that_drops_a_sandbox_does_not_end_its_parents_machine(start_machine: Start) -> None:
    sandbox = start_machine()
    child = os.fork()
    if child == 0:
        sandbox.close()
        os._exit(0)
    os.waitpid(child, 0)
    assert sandbox.start_session(Limits())


@pytest.fixture
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A cache with the image but without snapshots, which a test may damage."""
    machines.prepare(MachineSpec(role="student"))
    source, target = cache.cache_root(), tmp_path / "cache"
    for kind in ("base", "rootfs", "image", "verdict"):
        if (source / kind).is_dir():
            shutil.copytree(source / kind, target / kind, copy_function=link, symlinks=True)
    monkeypatch.setenv("KAROTTE_GYM_CACHE", str(target))
    yield target
    machines._loaded.clear()


def link(source: str, target: str) -> None:
    try:
        os.link(source, target)
    except OSError:  # another file system
        shutil.copy2(source, target)


def flip_a_byte_unnoticed(entry: Path) -> None:
    """In memory that the machine had used, leaving size and times as they were."""
    path = entry / "ram"
    facts = path.stat()
    with open(path, "r+b") as file:
        offset = os.lseek(file.fileno(), 0, os.SEEK_DATA)
        byte = os.pread(file.fileno(), 1, offset)
        os.pwrite(file.fileno(), bytes([byte[0] ^ 1]), offset)
    os.utime(path, ns=(facts.st_atime_ns, facts.st_mtime_ns))


def cut_the_state(entry: Path) -> None:
    os.truncate(entry / "state", 100)


def make_foreign(entry: Path) -> None:
    """Whole by its manifest, but the state is none that this QEMU loads."""
    (entry / "state").write_bytes(b"QEVM" + bytes(5000))
    manifest.write(entry, kind="snapshot", key=entry.name)


def remove_the_manifest(entry: Path) -> None:
    (entry / manifest.NAME).unlink()


@pytest.mark.parametrize("damage", [flip_a_byte_unnoticed, cut_the_state, make_foreign, remove_the_manifest])
def test_a_damaged_snapshot_is_rebuilt(own_cache: Path, damage: Callable[[Path], None]) -> None:
    spec = MachineSpec(role="grader")
    machines.prepare(spec)
    (entry,) = (own_cache / "snapshot").glob("[0-9a-f]*")
    made_ns = (entry / "about.json").stat().st_mtime_ns
    damage(entry)
    machines._loaded.clear()  # as in the next process
    sandbox = machines.start(spec)
    try:
        assert sandbox.run(["/bin/true"], user="root").exit_code == 0
    finally:
        sandbox.close()
    assert (entry / "about.json").stat().st_mtime_ns != made_ns
    assert cache.verify(entry) == []


@pytest.mark.parametrize(
    ("fates", "rebuilt"),
    [(["killed"], False), (["killed", "killed"], True), (["silent", "killed"], False)],
    ids=["killed", "killed twice", "silent and killed"],
)
def test_a_machine_that_is_killed_while_it_loads_costs_no_snapshot(
    own_cache: Path, monkeypatch: pytest.MonkeyPatch, fates: list[str], rebuilt: bool
) -> None:
    """Whoever leaves kills its machines, and other processes start theirs from the same snapshot; only the second is doubt."""
    spec = MachineSpec(role="grader")
    machines.prepare(spec)
    (entry,) = (own_cache / "snapshot").glob("[0-9a-f]*")
    made = entry.stat().st_ino
    clone, renew, fate = snapshot.Snapshot.clone, MachineSandbox.renew, iter([*fates, "lives"])
    now = ""

    def clone_and_kill(source: snapshot.Snapshot) -> qemu.Qemu:
        nonlocal now
        machine = clone(source)
        now = next(fate)
        assert now != "killed" or machine.kill()
        return machine

    def renew_or_not(sandbox: MachineSandbox) -> None:
        if now == "silent":
            raise MachineDied("no answer", cause="silent")
        renew(sandbox)

    monkeypatch.setattr(snapshot.Snapshot, "clone", clone_and_kill)
    monkeypatch.setattr(MachineSandbox, "renew", renew_or_not)
    machines.start(spec).close()
    assert now == "lives"
    assert (entry.stat().st_ino != made) is rebuilt
    assert cache.verify(entry) == []


def test_everything_that_matters_is_part_of_the_key(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "file").write_text("1")
    drive = (("student_data", str(tmp_path / "data")),)
    plain = MachineSpec(role="student")
    specs = [
        plain,
        MachineSpec(role="grader"),
        MachineSpec(role="student", drive=drive),
        MachineSpec(role="student", test_hooks=True),
        MachineSpec(role="student", use_cgroups=False),
        MachineSpec(role="student", hardware=Hardware(memory_mib=768)),
        MachineSpec(role="student", hardware=Hardware(disk_mib=1024)),
        MachineSpec(role="student", hardware=Hardware(disk_inodes=65536)),
        MachineSpec(role="student", hardware=Hardware(cpus=2)),
    ]
    recipes = [machines.recipe(spec, silent) for spec in specs]
    keys = {recipe.key for recipe in recipes}
    assert len(keys) == len(specs)
    other_image = dataclasses.replace(recipes[0].image, id="0" * 32)
    assert dataclasses.replace(recipes[0], image=other_image).key not in keys
    (tmp_path / "data" / "file").write_text("2")
    assert machines.recipe(specs[2], silent).key not in keys
    assert machines.recipe(dataclasses.replace(plain, silence_timeout_s=1.0), silent).key == recipes[0].key


def test_grading_data_is_refused_on_a_students_drive(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="root_data"):
        machines.prepare(MachineSpec(role="student", drive=(("root_data", str(tmp_path)),)))
    with pytest.raises(ConfigError, match="no directory"):
        machines.prepare(MachineSpec(role="student", drive=(("student_data", str(tmp_path / "absent")),)))
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ConfigError, match="pipe"):
        machines.prepare(MachineSpec(role="student", drive=(("student_data", str(tmp_path)),)))
