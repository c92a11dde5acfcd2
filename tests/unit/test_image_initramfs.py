"""The initramfs: archives that the kernel's own format readers accept, the same bytes for the same content."""

from __future__ import annotations

import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from karotte_gym.errors import ImageError
from karotte_gym.sandbox import initramfs
from karotte_gym.sandbox.initramfs import Member, cpio, guest_code, guest_digest, guest_members

OUR_TAG = sys.implementation.cache_tag
MEMBERS = [
    Member("deep/er/file", stat.S_IFREG | 0o640, b"carrot"),
    Member("empty", stat.S_IFREG | 0o644),
    Member("dev/console", stat.S_IFCHR | 0o600, device=(5, 1)),
    Member("deep", stat.S_IFDIR | 0o700),
]


def test_an_archive_does_not_depend_on_the_order_of_its_members():
    assert cpio(MEMBERS) == cpio(MEMBERS[::-1])


def test_parents_are_added_and_given_modes_are_kept(tmp_path: Path):
    if not shutil.which("cpio"):
        pytest.skip("cpio, which reads the archive as the kernel does, is not installed")
    archive = tmp_path / "archive"
    archive.write_bytes(cpio([member for member in MEMBERS if not member.path.startswith("dev")]))
    into = tmp_path / "into"
    into.mkdir()
    subprocess.run(["cpio", "-idm", "--quiet", "-F", str(archive)], cwd=into, check=True)
    assert (into / "deep/er/file").read_bytes() == b"carrot"
    assert stat.S_IMODE((into / "deep").stat().st_mode) == 0o700
    assert stat.S_IMODE((into / "deep/er").stat().st_mode) == 0o755
    assert (into / "empty").stat().st_size == 0


def test_archives_can_follow_each_other():
    one, two = cpio(MEMBERS), cpio([Member("other", stat.S_IFREG | 0o644, b"x")])
    assert len(one) % 512 == 0, "the kernel wants the next archive aligned"
    assert (one + two).count(b"TRAILER!!!") == 2


def test_a_device_carries_its_numbers():
    record = cpio([MEMBERS[2]])
    start = record.index(b"dev/console") - 110
    assert record[start : start + 6] == b"070701"
    assert (record[start + 6 + 9 * 8 : start + 6 + 11 * 8]) == b"0000000500000001"


def test_the_guest_is_packed_without_its_boot_scripts_and_foreign_bytecode():
    files = guest_code()
    assert "guest/wire.py" in files
    assert "start.py" in files
    assert not [name for name in files if "boot/" in name or "__pycache__" in name or name.endswith(".pyc")]


def test_the_guest_is_roots_alone_and_compiled_when_the_bytecode_fits():
    members = {member.path: member for member in guest_members(guest_code(), OUR_TAG)}
    assert stat.S_IMODE(members["karotte"].mode) == 0o700
    assert f"karotte/guest/__pycache__/wire.{OUR_TAG}.pyc" in members


def test_the_guest_is_not_compiled_for_another_python():
    assert not [member.path for member in guest_members(guest_code(), "cpython-299") if member.path.endswith(".pyc")]


def test_bytecode_does_not_depend_on_when_and_where_it_was_made():
    one, two = (guest_members({"guest/a.py": b"x = 1\n"}, OUR_TAG) for _ in range(2))
    assert cpio(one) == cpio(two)
    assert b"/usr/lib/karotte/guest/a.py" in cpio(one)


def test_code_that_does_not_compile_is_named():
    with pytest.raises(ImageError, match=r"guest/broken\.py"):
        guest_members({"guest/broken.py": b"def (:\n"}, OUR_TAG)


def test_the_digest_tells_names_contents_and_pythons_apart():
    digests = {
        guest_digest({"a": b"1", "b": b"2"}, "t"),
        guest_digest({"a": b"12", "b": b""}, "t"),
        guest_digest({"ab": b"12"}, "t"),
        guest_digest({"a": b"1", "b": b"2"}, "u"),
    }
    assert len(digests) == 4


def test_early_boot_holds_the_modules_in_their_order():
    archive = initramfs.early_boot(b"busybox", [("z.ko", b"1"), ("a.ko", b"2")])
    assert b"z.ko\na.ko\n" in archive
    assert (initramfs.BOOT / "init").read_bytes() in archive
