"""A cold boot: from an image and a data drive to a machine whose agent has said hello. Slow; done once per snapshot."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from karotte_gym.errors import MachineDied, MachineError
from karotte_gym.sandbox import ram, rundir
from karotte_gym.sandbox.channel import Channel
from karotte_gym.sandbox.host_delay import host_delay_s
from karotte_gym.sandbox.image import Image
from karotte_gym.sandbox.runtimes import qemu
from karotte_gym.sandbox.runtimes import qemu_command as command

__all__ = ["BOOT_TIMEOUT_S", "Booted", "boot"]

BOOT_TIMEOUT_S = 60.0  # measured: 4 s under emulation, alone on the host
MIB = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Booted:
    """A running machine that has just come up; its RAM is in `ram_fd`, its scratch disk in `scratch_fd`."""

    qemu: qemu.Qemu
    channel: Channel
    ram_fd: int
    scratch_fd: int
    seconds: float


@contextlib.contextmanager
def boot(
    hull: command.Hull, image: Image, drive: Path, scratch: Path, disk_mib: int, timeout_s: float = BOOT_TIMEOUT_S
) -> Iterator[Booted]:
    """Boot with a new, blank scratch disk at `scratch`. MachineError with what the console said when it stays silent.

    The machine is ended when the block is left.
    """
    start = time.monotonic()
    with contextlib.ExitStack() as stack:
        files = _open_files(stack, hull, image, drive, scratch, disk_mib)
        machine = qemu.launch(hull, files, rundir.create(), disk_bytes=disk_mib * MIB, restore=False)
        stack.callback(machine.close)
        channel = Channel(
            machine.agent,
            silence_timeout_s=timeout_s,
            kill=machine.kill,
            side_streams=(machine.console, machine.errors, machine.qmp),
            host_delay=lambda: host_delay_s(machine.pid),
        )
        stack.callback(channel.close)
        try:
            channel.expect_hello(timeout_s)
        except MachineDied as error:
            raise MachineError(f"the machine did not boot: {error}{machine.last_words()}") from error
        seconds = time.monotonic() - start
        yield Booted(machine, channel, files[command.RAM], files[command.SCRATCH], seconds)


def _open_files(
    stack: contextlib.ExitStack, hull: command.Hull, image: Image, drive: Path, scratch: Path, disk_mib: int
) -> dict[int, int]:
    def opened(fd: int) -> int:
        stack.callback(os.close, fd)
        return fd

    files = {
        command.RAM: opened(os.memfd_create("karotte-boot-ram", os.MFD_CLOEXEC)),
        command.SCRATCH: opened(os.open(scratch, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)),
        command.KERNEL: opened(ram.sealed_bytes(image.kernel.read_bytes())),
        command.INITRD: opened(ram.sealed_bytes(image.initramfs.read_bytes())),
        command.ROOTFS: opened(os.open(image.rootfs, os.O_RDONLY | os.O_CLOEXEC)),
        command.DATA: opened(os.open(drive, os.O_RDONLY | os.O_CLOEXEC)),
    }
    os.ftruncate(files[command.RAM], hull.memory_mib * MIB)
    os.ftruncate(files[command.SCRATCH], disk_mib * MIB)
    return files
