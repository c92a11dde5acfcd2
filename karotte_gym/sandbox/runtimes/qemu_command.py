"""The command line of one QEMU: the same virtual hardware for the boot that is saved and for every clone of it.

Everything comes by descriptor under the fixed numbers below, so QEMU opens no path of ours and the command line does
not change from machine to machine; its text is part of a snapshot's key.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from karotte_gym.guest.wire import PORT_NAME

__all__ = ["AGENT", "CONSOLE", "DATA", "INITRD", "KERNEL", "QMP", "RAM", "ROOTFS", "SCRATCH", "SCRATCH_BASE", "STATE"]
__all__ += ["IGNORE_SHARED", "Hull", "arguments", "load_commands"]

AGENT, QMP, CONSOLE, RAM, KERNEL, INITRD, ROOTFS, SCRATCH, SCRATCH_BASE, DATA, STATE = range(10, 21)
TCG_CACHE_MIB = 64  # translated code of one machine; 512 is QEMU's default and more than a small machine's whole RAM
SECCOMP = "on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny"
IGNORE_SHARED: tuple[str, dict[str, Any]] = (
    "migrate-set-capabilities",
    {"capabilities": [{"capability": "x-ignore-shared", "state": True}]},
)
KERNEL_ARGUMENTS = "quiet loglevel=3 panic=-1 reboot=t random.trust_cpu=on"


@dataclass(frozen=True, slots=True)
class Hull:
    """The virtual hardware and the kernel's command line: what must be equal at save and at restore."""

    architecture: str
    accelerator: str  # "kvm" or "tcg"
    memory_mib: int
    cpus: int
    test_hooks: bool
    use_cgroups: bool


def arguments(hull: Hull, *, restore: bool, tsc_khz: int | None = None) -> list[str]:
    """QEMU's arguments (without the program) for the first boot or for a clone of its snapshot.

    `tsc_khz` (see `host_clock`) is for the first boot of an emulated x86 machine; a clone has no use for it.
    """
    return [
        *("-name", "karotte-gym", "-nodefaults", "-no-user-config", "-display", "none", "-no-reboot"),
        *("-sandbox", SECCOMP),
        *("-machine", f"{'microvm' if hull.architecture == 'x86_64' else 'virt'},memory-backend=ram"),
        *("-accel", "kvm" if hull.accelerator == "kvm" else f"tcg,thread=multi,tb-size={TCG_CACHE_MIB}"),
        *("-cpu", _processor(hull)),
        *("-smp", str(hull.cpus), "-m", str(hull.memory_mib)),
        *("-object", _ram(hull, restore)),
        *("-kernel", f"/proc/self/fd/{KERNEL}", "-append", _kernel_arguments(hull, tsc_khz)),
        *_chardev("console", CONSOLE),
        *("-serial", "chardev:console"),
        *_chardev("qmp", QMP),
        *("-mon", "chardev=qmp,mode=control"),
        *_drives(restore),
        *("-device", "virtio-serial-device"),
        *_chardev("agent", AGENT),
        *("-device", f"virtserialport,chardev=agent,name={PORT_NAME}"),
        *(("-incoming", "defer") if restore else ("-initrd", f"/proc/self/fd/{INITRD}")),
    ]


def load_commands() -> list[tuple[str, dict[str, Any]]]:
    """What makes a QEMU that was started with ``restore=True`` load and run; RAM is not in the state, but mapped."""
    return [IGNORE_SHARED, ("migrate-incoming", {"uri": f"fd:{STATE}"})]


def _processor(hull: Hull) -> str:
    if hull.accelerator == "kvm":
        return "host"
    # Nobody needs a fifth level of page tables or protection keys, and emulation pays for both at each change of process.
    # What is fast on silicon with "erms", copies by one instruction for each byte, is emulated byte by byte: without it
    # `cat` of a large file takes a third of the time.
    return "max,la57=off,pku=off,erms=off" if hull.architecture == "x86_64" else "max"


def _ram(hull: Hull, restore: bool) -> str:
    # A clone maps the sealed file privately: what it writes stays its own, whoever took over its emulator.
    share = "off" if restore else "on"
    return f"memory-backend-file,id=ram,size={hull.memory_mib}M,mem-path=/proc/self/fd/{RAM},share={share}"


def _kernel_arguments(hull: Hull, tsc_khz: int | None) -> str:
    words = ["console=ttyS0" if hull.architecture == "x86_64" else "console=ttyAMA0", KERNEL_ARGUMENTS]
    if hull.accelerator == "tcg":
        # An emulated processor does not speculate: the detours only cost. And the emulator translates a program anew for
        # each address that it is loaded to.
        words += ["mitigations=off", "karotte.fixed_addresses=1"]
    if tsc_khz is not None:
        words += [f"tsc_early_khz={tsc_khz}", "tsc=reliable"]
    if hull.test_hooks:
        words.append("karotte.test_hooks=1")
    if not hull.use_cgroups:
        words += ["karotte.no_cgroups=1", "cgroup_disable=memory,pids"]
    return " ".join(words)


def _chardev(name: str, fd: int) -> list[str]:
    return ["-chardev", f"socket,id={name},fd={fd}"]


def _drives(restore: bool) -> list[str]:
    words: list[str] = []
    nodes = [("rootfs", _raw("rootfs", ROOTFS, read_only=True))]
    if restore:
        words += _blockdev(_raw("scratch-base", SCRATCH_BASE, read_only=True))
        file = _file(SCRATCH, read_only=False)
        nodes.append(("scratch", {"driver": "qcow2", "node-name": "scratch", "file": file, "backing": "scratch-base"}))
    else:
        nodes.append(("scratch", _raw("scratch", SCRATCH, read_only=False)))
    nodes.append(("data", _raw("data", DATA, read_only=True)))
    for name, node in nodes:
        words += [*_blockdev(node), "-device", f"virtio-blk-device,drive={name}"]
    fds = [ROOTFS, SCRATCH, DATA, *([SCRATCH_BASE] if restore else [])]
    sets = [word for fd in fds for word in ("-add-fd", f"fd={fd},set={fd}")]
    return sets + words


def _blockdev(node: dict[str, Any]) -> list[str]:
    cache = {"direct": False, "no-flush": True}  # a scratch disk dies with its machine: nothing is worth a sync
    return ["-blockdev", json.dumps({**node, "cache": cache, "discard": "unmap"})]


def _raw(name: str, fd: int, *, read_only: bool) -> dict[str, Any]:
    return {"driver": "raw", "node-name": name, "read-only": read_only, "file": _file(fd, read_only=read_only)}


def _file(fd: int, *, read_only: bool) -> dict[str, Any]:
    # No lock: clones share what they only read, and a scratch overlay is known to one machine alone.
    return {"driver": "file", "filename": f"/dev/fdset/{fd}", "read-only": read_only, "locking": "off"}
