"""Hardware virtualization or emulation: decided by a boot, never by the existence of /dev/kvm.

A /dev/kvm that opens and even creates machines may still run no stock kernel (nested under some clouds' hypervisors).
So a machine is booted on it once; the verdict is remembered for this host kernel, processor, QEMU and guest kernel.
"""

from __future__ import annotations

import functools
import hashlib
import json
import os
import platform
import warnings
from collections.abc import Callable
from pathlib import Path

from karotte_gym.errors import ConfigError, MachineError
from karotte_gym.sandbox import cache
from karotte_gym.sandbox.progress import Progress, silent
from karotte_gym.sandbox.runtimes import qemu_binary

__all__ = ["PROBE_TIMEOUT_S", "choose", "host_cpu"]

PROBE_TIMEOUT_S = 20.0  # a boot on working hardware takes a second
_VARIABLE = "KAROTTE_GYM_ACCEL"
_COST = "episodes take about ten times as much processor time as on hardware"


def choose(kernel: str, boots_on_kvm: Callable[[], bool], progress: Progress = silent) -> str:
    """ "kvm" or "tcg" for machines with this guest kernel; `boots_on_kvm` boots it on kvm and says whether it lived.

    ``KAROTTE_GYM_ACCEL=kvm`` or ``tcg`` decides without a probe.
    """
    wanted = os.environ.get(_VARIABLE, "auto")
    if wanted not in ("auto", "kvm", "tcg"):
        raise ConfigError(f"{_VARIABLE}={wanted!r}: must be auto, kvm or tcg")
    if wanted != "auto":
        return wanted
    if not os.access("/dev/kvm", os.R_OK | os.W_OK):
        _warn_once(f"/dev/kvm is absent or not accessible: machines are emulated; {_COST}")
        return "tcg"
    if _verdict(kernel, boots_on_kvm, progress) == "kvm":
        return "kvm"
    _warn_once(f"/dev/kvm exists but boots no machine here: machines are emulated; {_COST}")
    return "tcg"


def host_cpu() -> str:
    """What tells this processor (and what its hypervisor shows of it) from another."""
    lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    names = ("vendor_id", "cpu family", "model", "model name", "stepping", "flags", "CPU part", "Features")
    facts = {line.partition(":")[0].strip(): line.partition(":")[2].strip() for line in lines}
    return hashlib.sha256(json.dumps([facts.get(name) for name in names]).encode()).hexdigest()


def _verdict(kernel: str, boots_on_kvm: Callable[[], bool], progress: Progress) -> str:
    binary = qemu_binary.find()
    parts = [platform.release(), platform.version(), host_cpu(), binary.sha256, kernel]
    key = hashlib.sha256(json.dumps(parts).encode()).hexdigest()

    def probe(directory: Path) -> None:
        progress("probing hardware virtualization", 0.0)
        found = "kvm" if boots_on_kvm() else "tcg"
        (directory / "verdict").write_text(found, encoding="utf-8")
        progress("probing hardware virtualization", 1.0)

    verdict = (cache.publish("verdict", key, probe, progress) / "verdict").read_text(encoding="utf-8")
    if verdict not in ("kvm", "tcg"):
        raise MachineError(f"the remembered verdict {verdict!r} is none; run `karotte-gym cache prune`")
    return verdict


@functools.cache
def _warn_once(message: str) -> None:
    warnings.warn(message, RuntimeWarning, stacklevel=2)
