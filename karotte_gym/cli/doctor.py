"""``karotte-gym doctor``: what this host has, what it lacks, and how to fix it."""

from __future__ import annotations

import os
import platform
import shutil
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import psutil
import typer

from karotte_gym.errors import KarotteError

__all__ = ["Check", "checks", "doctor"]

MIN_MEMORY_BYTES = 2 * 1024**3  # two machines of 512 MiB and the trainer
ARCHITECTURES = ("x86_64", "aarch64")


@dataclass(frozen=True, slots=True)
class Check:
    """One finding. `fix` says what to do when it is not `ok`; a check that is not `required` only warns."""

    name: str
    ok: bool
    found: str
    fix: str = ""
    required: bool = True


def doctor() -> None:
    """Say what this host has and lacks for running machines. Exit code 1 when something required is missing."""
    failed = False
    for check in checks():
        word = "ok" if check.ok else "missing" if check.required else "note"
        typer.echo(f"{word:8}{check.name}: {check.found}{'' if check.ok else ' -> ' + check.fix}")
        failed = failed or (check.required and not check.ok)
    typer.echo("something required is missing" if failed else "this host can run machines")
    raise typer.Exit(1 if failed else 0)


def checks() -> Iterator[Check]:
    """All checks, one after another, so that a slow one does not hold back what is known."""
    yield from (_python(), _system(), _memory())
    yield from _tools()
    yield _guarded("container builder", _builder)
    cache = _guarded("cache", _cache)
    yield cache
    for name, check in {"space": _space, "image": _image, "accelerator": _accelerator}.items():
        yield _guarded(name, check) if cache.ok else Check(name, False, "not checked", "mend the cache first", False)


def _guarded(name: str, check: Callable[[], Check]) -> Check:
    """A check that our own code refuses is a finding, with the remedy that the error names."""
    try:
        return check()
    except KarotteError as error:
        found, _, fix = str(error).partition("; ")
        return Check(name, False, found, fix or "see above")


def _python() -> Check:
    version = platform.python_version()
    return Check("python", sys.version_info >= (3, 11), version, "install Python 3.11 or later")


def _system() -> Check:
    found = f"{platform.system()} {platform.release()} {platform.machine()}"
    usable = platform.system() == "Linux" and platform.machine() in ARCHITECTURES
    return Check("system", usable, found, f"use Linux on {' or '.join(ARCHITECTURES)}")


def _memory() -> Check:
    free = psutil.virtual_memory().available
    found = f"{free / 1024**3:.1f} GiB available, {os.cpu_count()} processors"
    return Check("memory", free >= MIN_MEMORY_BYTES, found, "free some: 2 GiB run two machines", required=False)


def _tools() -> Iterator[Check]:
    from karotte_gym.sandbox.image_command import find_tool

    machine = platform.machine()
    wanted = [
        (f"qemu-system-{machine}", "qemu-system-arm" if machine == "aarch64" else "qemu-system-x86"),
        ("mksquashfs", "squashfs-tools"),
        ("mmdebstrap", "mmdebstrap"),
        ("setpriv", "util-linux"),
        ("unshare", "util-linux"),
    ]
    if os.geteuid():
        wanted.append(("newuidmap", "uidmap"))
    for name, package in wanted:
        path = find_tool(name)
        yield Check(name, path is not None, path or "not found", f"apt-get install {package}")


def _builder() -> Check:
    from karotte_gym.sandbox.image_container import find_builder

    builder = find_builder()
    return Check("container builder", True, f"{builder.name} ({builder.program})")


def _cache() -> Check:
    from karotte_gym.sandbox.cache import cache_root

    root = cache_root()
    probe = root / f".doctor-{os.getpid()}"
    try:
        probe.write_bytes(b"x" * 4096)
        probe.unlink()
    except OSError as error:
        return Check("cache", False, f"{root}: {error.strerror}", "set KAROTTE_GYM_CACHE to a directory of yours")
    return Check("cache", True, f"{root} is writable")


def _space() -> Check:
    from karotte_gym.sandbox.cache import cache_root
    from karotte_gym.sandbox.image_command import MIN_FREE_BYTES

    free = shutil.disk_usage(cache_root()).free
    fix = f"an image build needs {MIN_FREE_BYTES / 1024**3:.0f} GiB: free some, or set KAROTTE_GYM_CACHE"
    return Check("space", free >= MIN_FREE_BYTES, f"{free / 1024**3:.1f} GiB free in the cache directory", fix)


def _image() -> Check:
    from karotte_gym.sandbox.image import find_image

    image = find_image()
    found = f"{image.id}, kernel {image.kernel_release}" if image else "not built yet"
    return Check("image", image is not None, found, "`karotte-gym image build` (or any run) builds it", required=False)


def _accelerator() -> Check:
    """What is remembered of the boot probe; /dev/kvm alone proves nothing, so nothing is claimed from it."""
    from karotte_gym.sandbox import cache

    forced = os.environ.get("KAROTTE_GYM_ACCEL", "auto")
    if forced != "auto":
        return Check("accelerator", True, f"{forced}, as KAROTTE_GYM_ACCEL says")
    slower = "machines are emulated and some ten times slower; use a host with working hardware virtualization"
    if not os.path.exists("/dev/kvm"):
        return Check("accelerator", False, "no /dev/kvm", slower, required=False)
    if not os.access("/dev/kvm", os.R_OK | os.W_OK):
        fix = f"add this user to the group of /dev/kvm; until then {slower.partition(';')[0]}"
        return Check("accelerator", False, "/dev/kvm is not accessible", fix, required=False)
    entries = [entry for entry in cache.list_entries() if entry.kind == "verdict"]
    verdicts = [entry for entry in entries if (entry.path / "verdict").exists()]  # others are about images
    if not verdicts:
        return Check("accelerator", True, "/dev/kvm is there; the first machine's start probes whether it boots", "")
    boots = (verdicts[-1].path / "verdict").read_text(encoding="utf-8").strip() == "kvm"
    return Check("accelerator", boots, f"/dev/kvm {'boots' if boots else 'boots no'} machines", slower, required=False)
