"""A scratch disk that `Hardware` takes can be formatted."""

from __future__ import annotations

import contextlib
import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pydantic import ValidationError

from karotte_gym.config import INODES_PER_MIB, MAX_INODES, MIB, Hardware
from karotte_gym.guest import prepare

DEFAULT_INODES = 262144


class Formatted(Exception):
    """Nothing is mounted here."""


def can_be_formatted(disk_mib: int, inodes: int, folder: Path, monkeypatch: pytest.MonkeyPatch) -> bool:
    """By the guest's own call of mkfs.ext4, on a sparse file of that size."""
    disk, size = folder / "disk", folder / "size"
    with disk.open("wb") as stream:
        stream.truncate(disk_mib * MIB)
    size.write_text(str(disk_mib * MIB // 512))
    exit_codes: list[int] = []

    def run(command: list[str], **_: Any) -> None:
        exit_codes.append(subprocess.run([*command[:-1], str(disk)], capture_output=True, check=False).returncode)
        raise Formatted

    with monkeypatch.context() as patched, contextlib.suppress(Formatted):
        patched.setattr(prepare, "open", lambda _: size.open(), raising=False)
        patched.setattr(prepare, "subprocess", SimpleNamespace(run=run, DEVNULL=None))
        prepare._make_scratch(16 * MIB, inodes)
    return exit_codes == [0]


def test_a_disk_too_small_for_its_inodes_is_refused_with_what_to_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert not can_be_formatted(64, DEFAULT_INODES, tmp_path, monkeypatch), "such a machine does not boot"
    with pytest.raises(ValidationError, match=r"set disk_inodes=131072 or fewer, or disk_mib=128 or more"):
        Hardware(disk_mib=64)
    assert Hardware(disk_mib=128).disk_inodes == DEFAULT_INODES
    assert Hardware(disk_mib=64, disk_inodes=131072).disk_mib == 64


@pytest.mark.parametrize("disk_mib", [64, 65, 511, 512, 2048])  # mkfs.ext4 takes other blocks from 512 MiB on
def test_the_most_inodes_that_are_taken_fit_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, disk_mib: int) -> None:
    most = disk_mib * INODES_PER_MIB
    assert Hardware(disk_mib=disk_mib, disk_inodes=most)
    assert can_be_formatted(disk_mib, most, tmp_path, monkeypatch)
    with pytest.raises(ValidationError, match="are too many for disk_mib"):
        Hardware(disk_mib=disk_mib, disk_inodes=most + 1)


def test_a_disk_has_no_more_inodes_than_mkfs_can_make() -> None:
    assert Hardware(disk_mib=1024 * 1024, disk_inodes=MAX_INODES)
    with pytest.raises(ValidationError, match="disk_inodes"):
        Hardware(disk_mib=1024 * 1024, disk_inodes=MAX_INODES + 1)
