"""Which kernel modules lead from an empty machine to its root file system, and in which order they load.

Everything else stays out of the image: once the agent is up it closes module loading, so what is not loaded in the
initramfs can never be. Dependencies are read from the modules themselves (``.modinfo``), which needs no depmod.
"""

from __future__ import annotations

import gzip
import lzma
import re
import subprocess
from pathlib import Path

from karotte_gym.errors import ImageError
from karotte_gym.sandbox.image_command import find_tool

__all__ = ["WANTED", "load_order", "missing_features"]

# virtio: disks and the agent's port. squashfs, overlay: root. ext4: scratch disk. quota_v2: its limits per project.
WANTED = ("virtio_mmio", "virtio_blk", "virtio_console", "squashfs", "overlay", "ext4", "quota_v2")
WANTED_AARCH64 = ("virtio_pci",)
# Must be built in: the agent relies on them and nothing can be loaded later.
FEATURES = (
    "CGROUPS", "MEMCG", "CGROUP_PIDS", "CGROUP_SCHED", "FANOTIFY", "SECCOMP_FILTER", "POSIX_MQUEUE", "SYSVIPC",
    "PID_NS", "NET_NS", "IPC_NS", "UTS_NS", "TMPFS", "DEVTMPFS", "QUOTACTL", "SQUASHFS_ZSTD", "UNIX",
)  # fmt: skip


def load_order(tree: Path, machine: str) -> list[tuple[str, bytes]]:
    """(file name, content) of every needed module under `tree` (a lib/modules/RELEASE), dependencies first."""
    found = {_plain(path): path for path in sorted(tree.rglob("*.ko*"))}
    built_in = {_plain(Path(line)) for line in (tree / "modules.builtin").read_text().splitlines() if line}
    order: dict[str, bytes] = {}

    def load(name: str, ahead: tuple[str, ...]) -> None:
        if name in order or name in built_in or name in ahead:
            return
        if name not in found:
            raise ImageError(f"the kernel in the image has no module {name}, built in or loadable; use a Debian kernel")
        data = _unpacked(found[name])
        for needed in _needed(data):
            load(needed, (*ahead, name))
        order[name] = data

    for name in WANTED + (WANTED_AARCH64 if machine == "aarch64" else ()):
        load(name, ())
    return [(f"{name}.ko", data) for name, data in order.items()]


def missing_features(config: Path) -> list[str]:
    """Kernel options of `FEATURES` that are not built in."""
    built_in = set(re.findall(r"^CONFIG_(\w+)=y$", config.read_text(), re.MULTILINE))
    return [name for name in FEATURES if name not in built_in]


def _plain(path: Path) -> str:
    return path.name.split(".ko")[0].replace("-", "_")


def _needed(data: bytes) -> list[str]:
    """Hard dependencies and those to load before (``softdep=pre:``) as the module itself names them."""
    names = re.findall(rb"\0depends=([^\0]*)\0", b"\0" + data)
    soft = re.findall(rb"\0softdep=pre: ?([^\0]*?)(?: post:[^\0]*)?\0", data)
    listed = [name for text in names for name in text.decode().split(",")]
    listed += [name for text in soft for name in text.decode().split()]
    return [name.replace("-", "_") for name in listed if name]


def _unpacked(path: Path) -> bytes:
    data = path.read_bytes()
    if path.suffix == ".xz":
        return lzma.decompress(data)
    if path.suffix == ".gz":
        return gzip.decompress(data)
    if path.suffix == ".zst":
        program = find_tool("zstd")
        if not program:
            raise ImageError("the kernel's modules are compressed with zstd; install the package zstd")
        return subprocess.run([program, "-dcq"], input=data, capture_output=True, check=True).stdout
    return data
