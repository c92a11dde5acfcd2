"""Which QEMU: where it is and what tells one build from another, since a snapshot fits one build only."""

from __future__ import annotations

import functools
import hashlib
import os
import platform
import shutil
import subprocess
from dataclasses import dataclass

from karotte_gym.errors import MachineError

__all__ = ["QemuBinary", "architecture", "find"]

ARCHITECTURES = {"x86_64": "x86_64", "amd64": "x86_64", "aarch64": "aarch64", "arm64": "aarch64"}
VERSION_TIMEOUT_S = 20.0
_PACKAGES = {"x86_64": "qemu-system-x86", "aarch64": "qemu-system-arm"}


@dataclass(frozen=True, slots=True)
class QemuBinary:
    path: str  # absolute
    version: str  # first line of --version
    sha256: str
    architecture: str


def architecture() -> str:
    """Of this host and so of its machines: "x86_64" or "aarch64"."""
    try:
        return ARCHITECTURES[platform.machine().lower()]
    except KeyError:
        raise MachineError(f"machines of type {platform.machine()} are not supported; use x86_64 or aarch64") from None


@functools.cache
def find() -> QemuBinary:
    """The QEMU of this host (``KAROTTE_GYM_QEMU`` names another). MachineError says what to install."""
    kind = architecture()
    name = os.environ.get("KAROTTE_GYM_QEMU") or f"qemu-system-{kind}"
    path = shutil.which(name)
    if path is None:
        raise MachineError(f"{name} is not installed; install the package {_PACKAGES[kind]} or set KAROTTE_GYM_QEMU")
    try:
        said = subprocess.run(
            [path, "--version"], capture_output=True, timeout=VERSION_TIMEOUT_S, check=True, stdin=subprocess.DEVNULL
        )
        with open(path, "rb") as file:
            sha256 = hashlib.file_digest(file, "sha256").hexdigest()
    except (OSError, subprocess.SubprocessError) as error:
        raise MachineError(f"{path} does not work: {error}") from error
    return QemuBinary(os.path.realpath(path), said.stdout.decode(errors="replace").splitlines()[0], sha256, kind)
