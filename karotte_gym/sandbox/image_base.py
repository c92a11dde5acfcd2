"""The Debian root file system that a Containerfile starts from, made by mmdebstrap and cached as a tar on its own."""

from __future__ import annotations

import hashlib
import os
import platform
import re
from pathlib import Path

import psutil

from karotte_gym.errors import ConfigError, ImageError
from karotte_gym.sandbox import cache
from karotte_gym.sandbox.image_command import Command, find_tool
from karotte_gym.sandbox.progress import Progress

__all__ = ["STAGE", "base_key", "base_tar", "check_base_tools"]

STAGE = "base root file system"
SUITES = ("bookworm", "trixie")
RECIPE = "1"  # part of the key: change it when the arguments below change what comes out


def suite() -> str:
    """Debian release of the machines: KAROTTE_GYM_SUITE, default bookworm."""
    name = os.environ.get("KAROTTE_GYM_SUITE", SUITES[0])
    if name not in SUITES:
        raise ConfigError(f"KAROTTE_GYM_SUITE is {name!r}; it must be one of {', '.join(SUITES)}")
    return name


def mirror() -> str | None:
    """KAROTTE_GYM_MIRROR; None lets mmdebstrap choose."""
    address = os.environ.get("KAROTTE_GYM_MIRROR") or None
    if address is not None and not re.fullmatch(r"(https?|file|copy)://?[^\s'\"]+", address):
        raise ConfigError(f"KAROTTE_GYM_MIRROR is {address!r}; it must be an address such as http://host/debian")
    return address


def base_key() -> str:
    """What the content of the base depends on."""
    parts = (RECIPE, suite(), platform.machine(), mirror() or "")
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:32]


def check_base_tools() -> None:
    """ImageError when a base can't be made here, before anything was done."""
    if not find_tool("mmdebstrap"):
        raise ImageError("mmdebstrap is missing; install the package mmdebstrap, or name a base image with --base")
    if os.geteuid() and not find_tool("newuidmap"):
        raise ImageError("newuidmap is missing, without which only root can make a base; install the package uidmap")
    has_network = any(facts.isup for name, facts in psutil.net_if_stats().items() if name != "lo")
    if not has_network and not (mirror() or "").startswith(("file:", "copy:")):
        raise ImageError(
            "no network interface is up, and Debian packages have to be fetched; connect this host, or set "
            "KAROTTE_GYM_MIRROR to a local mirror (file:///...)"
        )


def base_tar(log: Path, progress: Progress) -> Path:
    """The base as a tar, built when absent."""

    def build(directory: Path) -> None:
        check_base_tools()
        tar = directory / "base.tar"
        Command(directory, log, progress).run(
            STAGE,
            _argv(tar),
            expected_lines=11,
            hint="it fetches Debian packages: check the network and the proxy, or set KAROTTE_GYM_MIRROR",
        )

    return cache.publish("base", base_key(), build, progress) / "base.tar"


def _argv(tar: Path) -> list[str]:
    program = find_tool("mmdebstrap")
    assert program is not None
    address = mirror()
    # usr-is-merged instead of the package that merges /usr at run time and brings all of Perl.
    wanted = ["usr-is-merged", *(["ca-certificates"] if (address or "").startswith("https:") else [])]
    merged = [f"--hook-dir={path}" for path in ("/usr/share/mmdebstrap/hooks/merged-usr",) if os.path.isdir(path)]
    options = ["--variant=minbase", "--format=tar", f"--include={','.join(wanted)}", *merged]
    options.append("--mode=root" if os.geteuid() == 0 else "--mode=unshare")
    return [program, *options, suite(), str(tar), *([address] if address else [])]
