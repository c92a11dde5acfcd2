"""Limits: what is accepted as one, and how the watchdog adds up; with real processes and real memory on this host."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from karotte_gym.guest import limits_watchdog as watchdog
from karotte_gym.guest import quota, scratch_usage
from karotte_gym.guest.calls import Refused
from karotte_gym.guest.limits import NAMES, checked
from karotte_gym.guest.scratch_usage import ScratchUsage

MIB = 1 << 20
HOG = "import sys, mmap; size = int(sys.argv[1]); data = bytearray(b'x') * size; print('up', flush=True); sys.stdin.read()"


@pytest.mark.parametrize("name", sorted(NAMES))
@pytest.mark.parametrize("value", [-1, 1.5, "1", True, [], 2**62])
def test_what_is_no_count_is_refused_by_name(name: str, value: object) -> None:
    with pytest.raises(Refused, match=name):
        checked({name: value})


def test_left_out_is_not_the_same_as_null() -> None:
    assert checked({"memory_bytes": None, "max_output_bytes": 5}) == {"memory_bytes": None}


@pytest.fixture
def hog() -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen([sys.executable, "-c", HOG, str(64 * MIB)], stdin=-1, stdout=-1)
    assert process.stdout is not None
    assert process.stdout.readline() == b"up\n"
    yield process
    process.kill()
    process.communicate()


def test_the_exact_size_of_a_process_is_its_own_and_not_what_it_shares(hog: subprocess.Popen[bytes]) -> None:
    exact = watchdog.exact_bytes(hog.pid)
    resident = int(Path(f"/proc/{hog.pid}/statm").read_text().split()[1]) * watchdog.PAGE
    assert 64 * MIB <= exact <= resident
    assert watchdog.exact_bytes(2**22 + 1) == 0


def test_forks_that_share_everything_do_not_count_it_over_and_over() -> None:
    """The attack on the watchdog's honesty: 10 forks of a large process look ten times as large by resident pages."""
    code = (
        "import os, sys; data = bytearray(b'x') * (32 << 20)\n"
        "pids = []\n"
        "for i in range(9):\n"
        "    pid = os.fork()\n"
        "    if pid == 0: sys.stdin.read(); os._exit(0)\n"
        "    pids.append(pid)\n"
        "print(*pids, flush=True); sys.stdin.read()\n"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdin=-1, stdout=-1) as process:
        assert process.stdin is not None and process.stdout is not None
        pids = [process.pid, *map(int, process.stdout.readline().split())]
        resident = sum(int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * watchdog.PAGE for pid in pids)
        exact = sum(map(watchdog.exact_bytes, pids))
        process.stdin.close()
    assert resident > 10 * 32 * MIB
    assert exact < 3 * 32 * MIB


def test_a_memory_file_counts_though_no_process_has_mapped_it() -> None:
    before = watchdog.unowned_bytes(watchdog.shared_memory_bytes(), watchdog.roots_tmpfs_bytes())
    fd = os.memfd_create("hog")
    try:
        os.write(fd, bytes(64 * MIB))
        after = watchdog.unowned_bytes(watchdog.shared_memory_bytes(), watchdog.roots_tmpfs_bytes())
    finally:
        os.close(fd)
    assert after - before > 48 * MIB  # other programs of this host come and go


def test_a_file_of_roots_in_memory_does_not_count(tmp_path: Path) -> None:
    del tmp_path
    if not os.access("/dev/shm", os.W_OK):
        pytest.skip("/dev/shm is not writable here")
    path = Path(f"/dev/shm/karotte-test-{os.getpid()}")
    before = watchdog.unowned_bytes(watchdog.shared_memory_bytes(), watchdog.roots_tmpfs_bytes())
    try:
        path.write_bytes(bytes(64 * MIB))
        shared, roots = watchdog.shared_memory_bytes(), watchdog.roots_tmpfs_bytes()
    finally:
        path.unlink(missing_ok=True)
    assert watchdog.unowned_bytes(shared, roots) - before < 16 * MIB


def test_subtracting_more_than_there_is_leaves_nothing() -> None:
    assert watchdog.unowned_bytes(5, 7) == 0


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A directory in place of the scratch disk, on a file system that is surely fuller than any limit here."""
    monkeypatch.setattr(scratch_usage, "SCRATCH", str(tmp_path))
    return tmp_path


def test_a_flood_of_empty_files_is_too_many_files(disk: Path) -> None:
    usage = ScratchUsage(os.getuid())
    for number in range(20):
        (disk / f"{number}").touch()
    assert not usage.over(None, 20)
    (disk / "one more").touch()
    assert usage.over(None, 20)


def test_only_the_files_of_the_student_count(disk: Path) -> None:
    (disk / "big").write_bytes(bytes(MIB))
    assert ScratchUsage(os.getuid()).over(MIB // 2, None)
    assert not ScratchUsage(os.getuid() + 12345).over(MIB // 2, None)


def test_files_that_are_still_there_after_an_act_are_no_new_offence(disk: Path) -> None:
    (disk / "big").write_bytes(bytes(MIB))
    usage = ScratchUsage(os.getuid())
    assert usage.over(MIB // 2, None)
    assert not usage.over(MIB // 2, None)
    (disk / "more").write_bytes(bytes(MIB))
    assert usage.over(MIB // 2, None)


def test_a_name_that_goes_away_under_the_walk_is_no_error(disk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (disk / "a").touch()
    real = os.stat

    def stat(path: Any, **options: Any) -> os.stat_result:
        if path == "a":
            raise FileNotFoundError(path)
        return real(path, **options)

    monkeypatch.setattr(os, "stat", stat)
    assert not ScratchUsage(os.getuid()).over(None, 0)


def test_a_quota_of_nothing_is_not_the_quota_that_means_no_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel reads zero as "unlimited": a student that may have nothing must not get everything."""
    written: list[bytes] = []
    monkeypatch.setattr(quota.syscalls, "quotactl", lambda *arguments: written.append(arguments[3].raw))
    quota.put(1000, (0, 0))
    quota.put(1000, (None, None))
    assert [quota._DQBLK.unpack(data)[0] for data in written] == [1, 0]
    assert [quota._DQBLK.unpack(data)[3] for data in written] == [1, 0]
