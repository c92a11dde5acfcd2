"""The ``prepare`` call: everything a machine needs before its snapshot is saved, so that no clone has to do it again.

Scratch disk made and mounted, data in place, what the kernel really enforces probed (`limits_probe`), and one whole
session played through, so that code, directory entries and translated pages are warm in every clone.
"""

from __future__ import annotations

import os
import subprocess
from typing import Any

from . import syscalls
from .calls import Call, Handler, Machine, Refused
from .limits import Enforcer
from .limits_probe import probe_limits
from .places import (
    DRIVE,
    DRIVE_DEVICE,
    EMPTY,
    NO_DATA,
    NOTHING,
    ON_SCRATCH,
    PIPES,
    PRIVATE,
    SCRATCH,
    SCRATCH_DEVICE,
    SHARED,
    VIEW_ROOT,
)
from .probes.network import claim
from .processes import prefork
from .scoring import stand_by
from .session import end_session, make_leader, start_session
from .shell import shell_of
from .syscalls import MS_BIND, MS_NOATIME, MS_NODEV, MS_NOSUID, MS_RDONLY, MS_REMOUNT

__all__ = ["METHODS"]

STUDENT = 1000
DEFAULT_RESERVED_BYTES = 16 << 20  # of the scratch disk, for root alone: a full disk stops the student and nobody else
DEFAULT_INODES = 262144
_MKFS_TIMEOUT_S = 300.0
_WARM_TIMEOUT_S = 30.0
_WARM_CALLS = 64  # until Python has specialised the code of a call; that stays in the snapshot
# What students run first. In the snapshot its programs and libraries lie unpacked in the page cache, once for all clones.
_WARM_COMMAND = """set -e; mkdir /tmp/warm; cd /tmp/warm; ls -la / > l; cat l | head -3 | tail -2 | grep -c . | tr 0 1
sort l | uniq | wc; sed s/a/b/ l | cut -c1 | tee m; awk '{ print $1 }' l; find . -type f; date; id; stat l; echo x > x; mv x l
python3 -c 'import csv, json, os, re, subprocess, sys'; cp l n; cd; rm -r /tmp/warm"""
_WARM_GRADER = ("/usr/bin/python3", "-I", "-c", "import csv, decimal, json, os, re, subprocess, sys")


def _prepare(machine: Machine, call: Call) -> tuple[dict[str, Any], bytes]:
    role = call.params.get("role")
    if role not in ("student", "grader"):
        raise Refused("bad-params", f"role {role!r:.50} is neither student nor grader")
    if machine.role:
        raise Refused("refused", f"this machine is prepared already, as {machine.role}")
    _make_private_places()
    _make_scratch(_number(call.params, "disk_reserved_bytes", DEFAULT_RESERVED_BYTES),
                  _number(call.params, "disk_inodes", DEFAULT_INODES))  # fmt: skip
    _mount_drive()
    machine.role = role
    prefork(machine)
    if role == "student":
        _prepare_student(machine)
    else:
        _prepare_grader(machine)
    return {}, b""


def _number(params: dict[str, Any], name: str, default: int) -> int:
    value = params.get(name, default)
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise Refused("bad-params", f"{name} must be a count")
    return value


def _make_private_places() -> None:
    os.mkdir(PRIVATE, 0o700)
    modes = {SCRATCH: 0o755, DRIVE: 0o755, VIEW_ROOT: 0o755, EMPTY: 0, NO_DATA: 0o755, PIPES: 0o711}
    for path, mode in modes.items():
        os.mkdir(path)
        os.chmod(path, mode)
    os.close(os.open(NOTHING, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0))


def _make_scratch(reserved_bytes: int, inodes: int) -> None:
    """Format and mount the scratch disk, and put its directories where programs look for them."""
    with open(f"/sys/class/block/{os.path.basename(SCRATCH_DEVICE)}/size") as file:
        size = int(file.read()) * 512
    percent = min(50.0, 100.0 * reserved_bytes / size)
    # No journal: the disk dies with its machine. The quota of the student's uid is part of the format.
    features = ["-O", "^has_journal,quota", "-E", "quotatype=usrquota,lazy_itable_init=1,nodiscard,root_owner=0:0"]
    command = ["/usr/sbin/mkfs.ext4", "-q", "-F", *features, "-N", str(inodes), "-m", f"{percent:.4f}", SCRATCH_DEVICE]
    subprocess.run(command, check=True, stdin=subprocess.DEVNULL, capture_output=True, timeout=_MKFS_TIMEOUT_S)
    flags = MS_NOSUID | MS_NODEV | MS_NOATIME
    syscalls.mount(SCRATCH_DEVICE, SCRATCH, "ext4", flags, "usrquota,noinit_itable,errors=remount-ro")
    for name, place in ON_SCRATCH:
        path = f"{SCRATCH}/{name}"
        os.mkdir(path)
        os.chmod(path, 0o755 if name == "workdir" else 0o1777)
        if name == "workdir":
            os.chown(path, STUDENT, STUDENT)
        _bind(path, place, read_only=False)


def _bind(source: str, place: str, *, read_only: bool) -> None:
    os.makedirs(place, exist_ok=True)
    syscalls.mount(source, place, None, MS_BIND)
    flags = MS_REMOUNT | MS_BIND | MS_NOSUID | MS_NODEV | MS_NOATIME | (MS_RDONLY if read_only else 0)
    syscalls.mount("none", place, None, flags)


def _mount_drive() -> None:
    syscalls.mount(DRIVE_DEVICE, DRIVE, "squashfs", MS_RDONLY | MS_NOSUID | MS_NODEV)


def _from_drive(name: str) -> str:
    """The drive's directory of that name, or an empty one."""
    return f"{DRIVE}/{name}" if os.path.isdir(f"{DRIVE}/{name}") else NO_DATA


def _prepare_student(machine: Machine) -> None:
    _copy_data(_from_drive("student_data"), "/workdir/data")
    # Always a mount, also when it is empty: a plain directory in the student's own one could be replaced.
    machine.state["shared"] = _from_drive("shared_data")
    _bind(machine.state["shared"], SHARED, read_only=True)
    evidence = probe_limits(machine)
    machine.limits = Enforcer(machine, evidence)
    machine.limits.network = _warm_up(machine)
    machine.state["standby"] = make_leader(machine, machine.limits.shm_bytes(None))


def _copy_data(source: str, target: str) -> None:
    command = ["/usr/bin/cp", "-r", "-P", "--preserve=mode,timestamps", "--", f"{source}/.", target]
    os.makedirs(target)
    subprocess.run(command, check=True, stdin=subprocess.DEVNULL, capture_output=True)
    for command in (["/usr/bin/chown", "-R", "-h", f"{STUDENT}:{STUDENT}"], ["/usr/bin/chmod", "-R", "u+rwX,a-s"]):
        subprocess.run([*command, "--", target], check=True, stdin=subprocess.DEVNULL, capture_output=True)


def _prepare_grader(machine: Machine) -> None:
    subprocess.run(_WARM_GRADER, check=True, env={}, cwd="/", stdin=subprocess.DEVNULL, timeout=_WARM_TIMEOUT_S)
    for name in ("root_data", "grade"):
        _closed_copy_of(name)
    # The copy that the grader is given may be larger than memory. Readable: a judge may run submitted code beside it.
    path = f"{SCRATCH}/submission"
    os.mkdir(path, 0o755)
    _bind(path, "/submission", read_only=False)
    stand_by(machine, _WARM_TIMEOUT_S)


def _closed_copy_of(name: str) -> None:
    """Show a directory of the drive at /NAME with mode 0700: the drive's own modes are the same wherever it was made.

    Two lower layers: the mode of the whole is that of the upper one's top, which is empty otherwise.
    """
    top = f"{PRIVATE}/top-of-{name}"
    os.mkdir(top, 0o700)
    os.makedirs(f"/{name}", mode=0o700, exist_ok=True)
    flags = MS_RDONLY | MS_NOSUID | MS_NODEV
    syscalls.mount("overlay", f"/{name}", "overlay", flags, f"lowerdir={top}:{_from_drive(name)}")


def _warm_up(machine: Machine) -> dict[str, Any]:
    """Play a short session. Returns the contract about the network, which is tested in it as the student."""
    start_session(machine, {})
    try:
        session = machine.session
        null = os.open("/dev/null", os.O_RDWR | os.O_CLOEXEC)
        try:
            with session.spawn(["/bin/bash", "-c", ":"], stdin=null, stdout=null, stderr=null) as process:
                code = process.wait(_WARM_TIMEOUT_S)
        finally:
            os.close(null)
        if code != 0:
            raise OSError(f"the student's shell ended with {code}: {process.failure}")
        shell = shell_of(machine)
        for _ in range(_WARM_CALLS):
            shell.run("true", timeout_s=_WARM_TIMEOUT_S, restart=False, limit_bytes=4096)
        answer = shell.run(_WARM_COMMAND, timeout_s=_WARM_TIMEOUT_S, restart=False, limit_bytes=4096)
        if answer.exit_code != 0:
            raise OSError(f"the usual commands ended with {answer.exit_code}: {answer.output!r} {answer.note}")
        return claim(session)
    finally:
        _, left = end_session(machine, _WARM_TIMEOUT_S)
        if left:
            raise OSError(f"processes of the first session can't be ended: {left}")


METHODS: dict[str, Handler] = {"prepare": _prepare}
