"""Data drives: packed on change, the same wherever they are made, and large holes cost neither memory nor disk."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import time
from pathlib import Path

import pytest

from karotte_gym.sandbox import drive

GIB = 1024**3
MIB = 1024**2

PACK = """
import os, resource, sys, time
from karotte_gym.sandbox import drive
source = (("student_data", sys.argv[1]),)
with drive.build("student", source, drive.digest("student", source)) as entry:
    size = os.stat(entry / "drive.squashfs").st_size
    peak_kib = next(line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM"))
    print(size, int(peak_kib) * 1024, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024)
"""  # VmHWM of its own: ru_maxrss begins with what the process that starts it has


@pytest.fixture(autouse=True)
def own_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("KAROTTE_GYM_CACHE", str(tmp_path / "cache"))


def pack(source: Path) -> Path:
    spec = (("student_data", str(source)),)
    with drive.build("student", spec, drive.digest("student", spec)) as entry:
        return entry / drive.FILE


def test_a_drive_of_ten_gibibytes_is_packed_without_reading_it_into_memory(tmp_path: Path) -> None:
    source = tmp_path / "data"
    source.mkdir()
    with open(source / "large.bin", "wb") as file:
        file.truncate(10 * GIB)
        for offset in (0, 3 * GIB + 12345, 10 * GIB - MIB):
            file.seek(offset)
            file.write(os.urandom(MIB))
    done = subprocess.run([sys.executable, "-c", PACK, str(source)], check=True, capture_output=True, text=True, timeout=600)
    size, of_python, of_mksquashfs = map(int, done.stdout.split())
    assert 3 * MIB < size < 16 * MIB
    assert of_python < 256 * MIB and of_mksquashfs < 512 * MIB
    used = sum(os.lstat(os.path.join(top, name)).st_blocks * 512 for top, _, names in os.walk(tmp_path) for name in names)
    assert used < 64 * MIB, "the copy that is packed has the same holes"


def test_what_is_large_is_what_was_put_there(tmp_path: Path) -> None:
    source = tmp_path / "data"
    source.mkdir()
    data = os.urandom(100_000)
    with open(source / "sparse.bin", "wb") as file:
        file.truncate(40 * MIB)
        file.seek(17 * MIB + 5)
        file.write(data)
    packed = pack(source)
    out = tmp_path / "out"
    subprocess.run(["unsquashfs", "-q", "-n", "-d", str(out), str(packed)], check=True, capture_output=True)
    assert (out / "student_data" / "sparse.bin").read_bytes() == (source / "sparse.bin").read_bytes()


def test_a_change_gives_another_drive_and_a_small_one_is_there_within_a_second(tmp_path: Path) -> None:
    source = tmp_path / "data"
    source.mkdir()
    (source / "a.txt").write_text("one")
    first = pack(source)
    assert pack(source) == first
    before = drive.signature((("student_data", str(source)),))
    (source / "a.txt").write_text("two")
    started = time.process_time() + sum(resource.getrusage(resource.RUSAGE_CHILDREN)[:2])
    second = pack(source)
    spent_s = time.process_time() + sum(resource.getrusage(resource.RUSAGE_CHILDREN)[:2]) - started
    assert second != first and drive.signature((("student_data", str(source)),)) != before
    assert spent_s < 1.0, "processor time: what a quiet host needs at most"


def test_holes_and_zeros_are_the_same_content_and_names_and_modes_are_not(tmp_path: Path) -> None:
    digests = []
    for number in range(4):
        source = tmp_path / str(number)
        source.mkdir()
        name = "b" if number == 2 else "a"
        with open(source / name, "wb") as file:
            if number == 1:
                file.write(b"\0" * MIB)
            file.truncate(MIB)
        os.chmod(source / name, 0o755 if number == 3 else 0o644)
        digests.append(drive.digest("student", (("student_data", str(source)),)))
    assert digests[0] == digests[1] and len(set(digests)) == 3
