"""Kernel modules: dependencies first, compressed ones unpacked, a kernel that lacks something refused."""

from __future__ import annotations

import gzip
import lzma
from pathlib import Path

import pytest

from karotte_gym.errors import ImageError
from karotte_gym.sandbox import image_modules
from karotte_gym.sandbox.image_modules import WANTED, load_order, missing_features

BUILT_IN = ("ext4", "squashfs", "overlay", "quota_v2")


def module(*depends: str, soft: str = "") -> bytes:
    info = b"\0".join((b"license=GPL", b"depends=" + ",".join(depends).encode(), b"name=x"))
    return b"\x7fELF\0" + info + (b"\0softdep=pre: " + soft.encode() if soft else b"") + b"\0rest"


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    (tmp_path / "modules.builtin").write_text("".join(f"kernel/fs/{name}.ko\n" for name in BUILT_IN))
    drivers = tmp_path / "kernel" / "drivers"
    drivers.mkdir(parents=True)
    (drivers / "virtio_ring.ko").write_bytes(module())
    (drivers / "virtio.ko").write_bytes(module("virtio_ring"))
    (drivers / "virtio_mmio.ko.xz").write_bytes(lzma.compress(module("virtio", "virtio_ring")))
    (drivers / "virtio-blk.ko.gz").write_bytes(gzip.compress(module("virtio", soft="crc32c-fast")))
    (drivers / "crc32c_fast.ko").write_bytes(module())
    (drivers / "virtio_console.ko").write_bytes(module("virtio"))
    return tmp_path


def test_dependencies_come_first_and_everything_once(tree: Path):
    names = [name for name, _ in load_order(tree, "x86_64")]
    assert names == [
        "virtio_ring.ko",
        "virtio.ko",
        "virtio_mmio.ko",
        "crc32c_fast.ko",
        "virtio_blk.ko",
        "virtio_console.ko",
    ]


def test_compressed_modules_are_unpacked(tree: Path):
    assert all(data.startswith(b"\x7fELF") for _, data in load_order(tree, "x86_64"))


def test_a_module_that_is_nowhere_is_named(tree: Path):
    (tree / "kernel/drivers/virtio_console.ko").unlink()
    with pytest.raises(ImageError, match="virtio_console"):
        load_order(tree, "x86_64")


def test_aarch64_asks_for_pci_too(tree: Path):
    with pytest.raises(ImageError, match="virtio_pci"):
        load_order(tree, "aarch64")


def test_modules_that_need_each_other_end_the_search(tree: Path):
    (tree / "kernel/drivers/virtio_ring.ko").write_bytes(module("virtio"))
    assert len(load_order(tree, "x86_64")) == 6


def test_nothing_is_wanted_that_the_agent_does_not_need():
    assert "virtio_net" not in WANTED
    assert "fuse" not in WANTED


def test_features_that_are_modules_or_absent_are_missing(tmp_path: Path):
    config = tmp_path / "config"
    lines = [f"CONFIG_{name}=y" for name in image_modules.FEATURES if name not in ("MEMCG", "SECCOMP_FILTER")]
    config.write_text("\n".join([*lines, "CONFIG_MEMCG=m", "# CONFIG_SECCOMP_FILTER is not set"]) + "\n")
    assert missing_features(config) == ["MEMCG", "SECCOMP_FILTER"]
