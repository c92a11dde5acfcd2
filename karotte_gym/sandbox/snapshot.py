"""Snapshots: a machine booted once, brought to "ready", stopped and saved; and the private clones made of it.

An entry holds ``ram`` (sparse), ``state`` (devices and processors, some 50 KB), ``scratch`` (the formatted disk,
sparse), ``overlay.qcow2`` (an empty overlay that every clone copies) and ``about.json``. The key is a hash of all that
an entry depends on; a snapshot fits exactly one QEMU build, accelerator, image, data drive and virtual hardware.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import json
import os
import shutil
import struct
import subprocess
import time
import weakref
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from karotte_gym.errors import KarotteError, MachineDied, MachineError
from karotte_gym.sandbox import accelerator, boot, cache, drive, ram, rundir
from karotte_gym.sandbox.contract import MachineSpec
from karotte_gym.sandbox.image import Image
from karotte_gym.sandbox.progress import Progress, silent
from karotte_gym.sandbox.runtimes import qemu, qemu_binary
from karotte_gym.sandbox.runtimes import qemu_command as command

__all__ = ["Recipe", "Snapshot", "load"]

FORMAT = "2"  # part of the key: change it when this code changes what a snapshot is
BOOT_TRIES = 3  # a boot under emulation can hang with an empty console
PREPARE_TIMEOUT_S = 120.0
SAVE_TIMEOUT_S = 60.0
QEMU_IMG_TIMEOUT_S = 60.0
RESERVED_BYTES = 16 * 1024 * 1024  # of the scratch disk, for root: a full disk must leave custody and agent room
WARM_UP_PINGS = 20  # the emulator keeps no translated code in a snapshot, but the guest keeps its pages
MIB = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Recipe:
    """All that one snapshot is made of."""

    spec: MachineSpec
    image: Image
    hull: command.Hull
    drive_key: str

    @property
    def key(self) -> str:
        """Two recipes with one key make interchangeable snapshots."""
        binary = qemu_binary.find()
        parts: dict[str, Any] = {
            "format": FORMAT,
            "image": self.image.id,
            "drive": self.drive_key,
            "role": self.spec.role,
            "hardware": self.spec.hardware.model_dump(),
            "qemu": [binary.path, binary.version, binary.sha256],
            "boot": command.arguments(self.hull, restore=False),
            "restore": [command.arguments(self.hull, restore=True), command.load_commands()],
            "host": accelerator.host_cpu(),  # its features on hardware, its counter's frequency under emulation
        }
        return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:40]

    @property
    def versions(self) -> dict[str, str]:
        """For people and records: which emulator, image and kernel."""
        return {
            "qemu": qemu_binary.find().version,
            "image": self.image.id,
            "kernel": self.image.kernel_release,
        }


class Snapshot:
    """A loaded snapshot: descriptors from which clones start. Holds its cache entries against `prune`."""

    def __init__(self, recipe: Recipe, leases: list[cache.Lease], data: Path):
        self.recipe = recipe
        self.path = leases[0].path
        with contextlib.ExitStack() as stack:
            for lease in leases:
                stack.callback(lease.release)
            with open(self.path / "ram", "rb") as file:
                ram_fd = ram.sealed_copy(file.fileno())
            stack.callback(os.close, ram_fd)
            kernel_fd = ram.sealed_bytes(kernel_stub(recipe.image.kernel.read_bytes()))
            stack.callback(os.close, kernel_fd)
            self._sealed = {command.RAM: ram_fd, command.KERNEL: kernel_fd}
            paths = {
                command.STATE: self.path / "state",
                command.SCRATCH_BASE: self.path / "scratch",
                command.ROOTFS: recipe.image.rootfs,
                command.DATA: data,
            }
            self._files: dict[int, int] = {}
            for number, path in paths.items():  # kept open: an entry that another process discards stays usable here
                self._files[number] = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
                stack.callback(os.close, self._files[number])
            self._overlay = (self.path / "overlay.qcow2").read_bytes()
            weakref.finalize(self, stack.pop_all().close)

    def clone(self) -> qemu.Qemu:
        """Start a machine from here. It loads by itself and runs; the first thing its agent must get is `renew`."""
        disk_bytes = self.recipe.spec.hardware.disk_mib * MIB
        run = rundir.create()
        files = dict(self._sealed)
        with contextlib.ExitStack() as ours:
            try:
                files[command.SCRATCH] = _write_overlay(run.path / "scratch.qcow2", self._overlay)
                ours.callback(os.close, files[command.SCRATCH])
                for number, fd in self._files.items():  # each clone has its own offset and flags
                    files[number] = os.open(f"/proc/self/fd/{fd}", os.O_RDONLY | os.O_CLOEXEC)
                    ours.callback(os.close, files[number])
                return qemu.launch(self.recipe.hull, files, run, disk_bytes=disk_bytes, restore=True)
            except BaseException:
                run.close()
                raise


def load(recipe: Recipe, progress: Progress = silent) -> Snapshot:
    """The snapshot of `recipe`, built when absent, rebuilt when a byte of it is not what was saved."""
    data = drive.build(recipe.spec.role, recipe.spec.drive, recipe.drive_key, progress)
    leases = [cache.use(recipe.image.directory), data]

    def build(directory: Path) -> None:
        _build(recipe, data.path / drive.FILE, directory, progress)

    entry = cache.obtain("snapshot", recipe.key, build, progress)
    if cache.verify(entry.path):
        progress("a damaged snapshot is rebuilt", 0.0)
        cache.discard(entry.path)
        entry.release()
        entry = cache.obtain("snapshot", recipe.key, build, progress)
    return Snapshot(recipe, [entry, *leases], data.path / drive.FILE)


def _build(recipe: Recipe, data: Path, directory: Path, progress: Progress) -> None:
    for attempt in range(1, BOOT_TRIES + 1):
        progress("boot", 0.0)
        try:
            _boot_and_save(recipe, data, directory, progress)
            break
        except (MachineError, MachineDied) as error:
            for path in directory.iterdir():
                path.unlink()
            if attempt == BOOT_TRIES:
                raise MachineError(f"no snapshot could be made in {BOOT_TRIES} tries; the last: {error}") from error
    _make_overlay(directory / "overlay.qcow2", recipe.spec.hardware.disk_mib * MIB)
    for path in directory.iterdir():
        path.chmod(0o444)


def _boot_and_save(recipe: Recipe, data: Path, directory: Path, progress: Progress) -> None:
    hardware = recipe.spec.hardware
    with boot.boot(recipe.hull, recipe.image, data, directory / "scratch", hardware.disk_mib) as booted:
        progress("prepare", 0.0)
        start = time.monotonic()
        prepare_machine(recipe, booted)
        prepare_s = time.monotonic() - start
        progress("save", 0.0)
        start = time.monotonic()
        _save(booted, directory)
        _write_about(recipe, directory, boot_s=booted.seconds, prepare_s=prepare_s, save_s=time.monotonic() - start)
    progress("save", 1.0)


def prepare_machine(recipe: Recipe, booted: boot.Booted) -> None:
    """Bring a machine that has just booted to where it is worth saving."""
    parameters = {
        "role": recipe.spec.role,
        "disk_reserved_bytes": RESERVED_BYTES,
        "disk_inodes": recipe.spec.hardware.disk_inodes,
    }
    try:
        booted.channel.call("prepare", parameters, timeout_s=PREPARE_TIMEOUT_S)
        for _ in range(WARM_UP_PINGS):
            booted.channel.call("ping", timeout_s=10.0)
    except KarotteError as error:
        raise MachineError(f"the machine could not be prepared: {error}{booted.qemu.last_words()}") from error


def _save(booted: boot.Booted, directory: Path) -> None:
    """QEMU stops the machine itself, and notes that it was running: a clone runs without being told to."""
    qmp = booted.qemu.qmp
    with open(directory / "state", "wb") as state:
        name, arguments = command.IGNORE_SHARED
        qmp.command(name, timeout_s=SAVE_TIMEOUT_S, **arguments)
        qmp.command("getfd", timeout_s=SAVE_TIMEOUT_S, fds=(state.fileno(),), fdname="state")
        qmp.command("migrate", timeout_s=SAVE_TIMEOUT_S, uri="fd:state")
        deadline = time.monotonic() + SAVE_TIMEOUT_S
        while (status := qmp.command("query-migrate", timeout_s=SAVE_TIMEOUT_S).get("status")) != "completed":
            if status in ("failed", "cancelled") or time.monotonic() > deadline:
                raise MachineError(f"the machine could not be saved ({status}){booted.qemu.last_words()}")
            time.sleep(0.002)
    if not booted.qemu.kill():
        raise MachineError("the saved machine does not end")
    with open(directory / "ram", "wb") as file:
        ram.copy_sparsely(booted.ram_fd, file.fileno())


def _write_about(recipe: Recipe, directory: Path, **seconds: float) -> None:
    about = {
        "role": recipe.spec.role,
        "hull": dataclasses.asdict(recipe.hull),
        "image": recipe.image.id,
        "qemu": qemu_binary.find().version,
        **{name: round(value, 3) for name, value in seconds.items()},
    }
    (directory / "about.json").write_text(json.dumps(about, indent=1) + "\n", encoding="utf-8")


def _make_overlay(path: Path, disk_bytes: int) -> None:
    """An empty overlay that names no backing file: which one it is, the command line says by descriptor."""
    program = shutil.which("qemu-img")
    if program is None:
        raise MachineError("qemu-img is not installed; install the package qemu-utils")
    done = subprocess.run(
        [program, "create", "-q", "-f", "qcow2", str(path), str(disk_bytes)],
        capture_output=True,
        timeout=QEMU_IMG_TIMEOUT_S,
        check=False,
    )
    if done.returncode != 0:
        raise MachineError(f"qemu-img failed: {done.stderr.decode(errors='replace')[-500:]}")


def _write_overlay(path: Path, data: bytes) -> int:
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    with os.fdopen(os.dup(fd), "wb") as file:
        file.write(data)
    return fd


def kernel_stub(kernel: bytes) -> bytes:
    """The start of a kernel: QEMU wants one to set up the same boot ROM, but a clone never boots, so 4 KiB will do.

    Each clone would hold a private copy of the whole file otherwise. Not for a kernel of another format than bzImage.
    """
    if kernel[0x202:0x206] != b"HdrS":
        return kernel
    sectors = struct.unpack_from("B", kernel, 0x1F1)[0] or 4  # the kernel's boot protocol: 0 means 4
    return kernel[: (sectors + 1) * 512 + 4096]
