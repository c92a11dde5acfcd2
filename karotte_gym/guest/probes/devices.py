"""Devices and mounts: what the student can open below /dev, make itself, and write to outside its workspace."""

from __future__ import annotations

import errno
import os
import re
import stat
from collections.abc import Iterator

from .attempt import closed
from .tree import WORKSPACE, Finding, Probe, Tree, inside

__all__ = ["LIVE_PROBES"]

_HARMLESS = {
    (1, 3): "null", (1, 5): "zero", (1, 7): "full", (1, 8): "random", (1, 9): "urandom", (5, 0): "tty",
    (5, 2): "ptmx",
}  # fmt: skip
_PSEUDO_TERMINALS = range(136, 144)
_VIRTIO_PORTS = ("/dev/virtio-ports", "/dev/vport0p1", "/dev/vport1p1", "/dev/vport0p0", "/dev/hvc0", "/dev/hvc1")
_DISKS = (
    "/dev/vda", "/dev/vdb", "/dev/vdc", "/dev/sda", "/dev/nvme0n1", "/dev/loop0", "/dev/loop-control",
    "/dev/dm-0", "/dev/mapper/control", "/dev/ram0", "/dev/root", "/dev/block", "/dev/disk",
)  # fmt: skip
_CONSOLES = (
    "/dev/console", "/dev/ttyS0", "/dev/ttyAMA0", "/dev/tty0", "/dev/tty1", "/dev/vcs", "/dev/vcsa",
    "/dev/uinput", "/dev/input", "/dev/fb0",
)  # fmt: skip
_DRIVERS = (
    "/dev/fuse", "/dev/kvm", "/dev/net/tun", "/dev/vhost-net", "/dev/vhost-vsock", "/dev/vsock",
    "/dev/userfaultfd", "/dev/cuse", "/dev/hpet", "/dev/nvram", "/dev/rtc0", "/dev/cpu_dma_latency",
    "/dev/snapshot", "/dev/autofs", "/dev/hwrng", "/dev/watchdog", "/dev/vga_arbiter", "/dev/dri",
    "/dev/cpu/0/msr", "/dev/ppp", "/dev/btrfs-control",
)  # fmt: skip
_MADE = {
    "a disk (254:0)": (stat.S_IFBLK, 254, 0), "memory (1:1)": (stat.S_IFCHR, 1, 1),
    "a port (1:4)": (stat.S_IFCHR, 1, 4),
}  # fmt: skip
_VIRTUAL = ("proc", "sysfs", "cgroup", "cgroup2", "devpts", "mqueue", "securityfs")
_DEV = "guest/view.py decides what is in /dev"
_SHM_SHARE = 0.75  # of the machine's memory
_HUGE_TMPFS_INODES = 1_000_000


def minimal_devices(_tree: Tree) -> Iterator[Finding]:
    """Every device that opens is a driver that the student can talk to."""
    for directory, _, names in os.walk("/dev"):
        for path in (f"{directory}/{name}" for name in names):
            status = os.stat(path) if os.path.exists(path) else None
            if status is not None and not _is_harmless(status) and _can_open(path):
                yield Finding(f"{path} can be opened ({os.major(status.st_rdev)}:{os.minor(status.st_rdev)})", _DEV)


def agents_port(_tree: Tree) -> Iterator[Finding]:
    """The virtio port is the agent's line to the host: whoever opens it answers in its place."""
    yield from _any_open(_VIRTIO_PORTS)


def raw_disks(_tree: Tree) -> Iterator[Finding]:
    """A readable block device shows every file whatever its mode, and those that were deleted."""
    yield from _any_open(_DISKS)


def consoles(_tree: Tree) -> Iterator[Finding]:
    """The console is the harness's log: what is written there looks like the machine's own words."""
    yield from _any_open(_CONSOLES)


def drivers(_tree: Tree) -> Iterator[Finding]:
    """Devices of interfaces that a task has no use for: tunnels, clocks, processors, file systems of one's own."""
    yield from _any_open(_DRIVERS)


def making_devices(_tree: Tree) -> Iterator[Finding]:
    """A node made in the workspace opens what /dev leaves out."""
    for what, (kind, major, minor) in _MADE.items():
        yield from closed(f"making {what}", _make_device, kind, major, minor, fix="the student must have no capability")


def device_nodes_in_the_workspace(_tree: Tree) -> Iterator[Finding]:
    """Mounts without nodev open devices that root left, or a disk brought along."""
    for mount in _mounts():
        if not mount.read_only and mount.kind not in _VIRTUAL and "nodev" not in mount.options:
            yield Finding(f"{mount.path} is writable and mounted without nodev", "mount it with nodev in the session")


def set_user_mounts(_tree: Tree) -> Iterator[Finding]:
    """Mounts without nosuid honour the bits of a program that root copied there carelessly."""
    for mount in _mounts():
        if mount.kind not in ("proc", "sysfs") and "nosuid" not in mount.options:
            yield Finding(f"{mount.path} is mounted without nosuid", "mount it with nosuid in the session")


def writable_mounts(_tree: Tree) -> Iterator[Finding]:
    """A disk that is writable outside the workspace is neither swept nor counted."""
    for mount in _mounts():
        expected = mount.read_only or mount.kind in _VIRTUAL or inside(mount.path, WORKSPACE)
        if not expected and os.access(mount.path, os.X_OK if os.path.isdir(mount.path) else os.W_OK):
            yield Finding(f"{mount.path} ({mount.kind}) is mounted writable", "mount it read-only in the session")


def system_is_read_only(_tree: Tree) -> Iterator[Finding]:
    """One mode too loose in the image is harmless only as long as nothing of the system can be written at all."""
    mount = next((mount for mount in _mounts() if mount.path == "/"), None)
    if mount is None or not mount.read_only:
        yield Finding("/ is mounted writable in the session", "mount it read-only in guest/view.py")


def writable_places(tree: Tree) -> Iterator[Finding]:
    """Every directory outside the workspace is a place to leave something for root to find: each is tried."""
    for entry in tree.outside():
        if entry.is_directory and os.access(entry.path, os.W_OK) and _creates(entry.path):
            yield Finding(f"a file can be made in {entry.path}", "it lies outside the workspace: make it read-only")


def writable_settings(tree: Tree) -> Iterator[Finding]:
    """The same for files that are there: opened for writing, whatever mode, access list or mount says."""
    for entry in tree.outside():
        if entry.is_file and os.access(entry.path, os.W_OK):
            yield Finding(f"{entry.path} can be opened for writing", "it lies outside the workspace: make it read-only")


def shared_memory(_tree: Tree) -> Iterator[Finding]:
    """A memory file system without bound is memory that no process is seen to use."""
    for path in ("/dev/shm", "/run", "/dev", "/tmp"):
        if not os.path.ismount(path):
            continue
        space = os.statvfs(path)
        memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        is_memory = any(mount.path == path and mount.kind == "tmpfs" for mount in _mounts())
        if is_memory and not 0 < space.f_blocks * space.f_frsize <= memory * _SHM_SHARE:
            yield Finding(f"{path} may take {space.f_blocks * space.f_frsize} bytes of {memory}", "mount it with size=")
        if is_memory and not 0 < space.f_files <= _HUGE_TMPFS_INODES:
            yield Finding(f"{path} may hold {space.f_files} files", "mount it with nr_inodes=")


def own_mount_table(_tree: Tree) -> Iterator[Finding]:
    """What is mounted elsewhere in the machine (the drive, the whole scratch disk) must have no name in here."""
    for mount in _mounts():
        if re.search(r"/run/karotte|root_data|/grade\b", mount.path):
            yield Finding(f"{mount.path} is mounted in the session", "detach the machine's own mounts in guest/view.py")


LIVE_PROBES: tuple[Probe, ...] = (
    minimal_devices, agents_port, raw_disks, consoles, drivers, making_devices, device_nodes_in_the_workspace,
    set_user_mounts, writable_mounts, system_is_read_only, writable_places, writable_settings, shared_memory,
    own_mount_table,
)  # fmt: skip


class _Mount:
    def __init__(self, line: str):
        fields = line.split(" ")
        dash = fields.index("-")
        self.path = re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), fields[4])
        self.kind = fields[dash + 1]
        self.options = fields[5].split(",")
        self.read_only = "ro" in self.options or "ro" in fields[dash + 3].split(",")


def _mounts() -> list[_Mount]:
    """Of this namespace; of two mounts on one path the later covers the earlier."""
    with open("/proc/self/mountinfo", encoding="utf-8", errors="backslashreplace") as file:
        return list({mount.path: mount for mount in map(_Mount, file)}.values())


def _is_harmless(status: os.stat_result) -> bool:
    if not (stat.S_ISCHR(status.st_mode) or stat.S_ISBLK(status.st_mode)):
        return True
    number = (os.major(status.st_rdev), os.minor(status.st_rdev))
    return stat.S_ISCHR(status.st_mode) and (number in _HARMLESS or number[0] in _PSEUDO_TERMINALS)


def _can_open(path: str) -> bool:
    for access in (os.O_RDONLY, os.O_WRONLY):
        try:
            os.close(os.open(path, access | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC))
        except OSError as error:
            if error.errno in (errno.ENXIO, errno.EBUSY, errno.EAGAIN, errno.ENODEV, errno.EIO):
                return True  # the driver was asked, so the door was open
            continue
        return True
    return False


def _any_open(paths: tuple[str, ...]) -> Iterator[Finding]:
    for path in paths:
        candidates = [f"{path}/{name}" for name in os.listdir(path)] if _lists(path) else [path]
        for candidate in candidates:
            if os.path.lexists(candidate) and _can_open(candidate):
                yield Finding(f"{candidate} can be opened", _DEV)


def _lists(path: str) -> bool:
    return os.path.isdir(path) and os.access(path, os.R_OK | os.X_OK)


def _make_device(kind: int, major: int, minor: int) -> int:
    path = f"/var/tmp/karotte-probe-{os.getpid()}"
    os.mknod(path, kind | 0o600, os.makedev(major, minor))
    os.unlink(path)
    return 0


def _creates(directory: str) -> bool:
    path = f"{directory}/.karotte-probe-{os.getpid()}"
    try:
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    except OSError:
        return False
    os.unlink(path)
    return True
