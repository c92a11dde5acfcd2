"""The root file system of a machine: base, Containerfile, squashfs; with kernel and early boot, cached as one entry."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import re
import shutil
import tarfile
from pathlib import Path

from karotte_gym.errors import ConfigError, ImageError
from karotte_gym.sandbox import cache, image_base, image_command, image_container, initramfs
from karotte_gym.sandbox.image_command import Command, find_tool, require_free_space
from karotte_gym.sandbox.image_extra import Extra
from karotte_gym.sandbox.image_modules import load_order, missing_features
from karotte_gym.sandbox.progress import Progress

__all__ = ["CONTAINERFILE", "build_rootfs", "rootfs_key"]

CONTAINERFILE = Path(__file__).resolve().parent / "Containerfile"
COMPRESS_STAGE = "compression"
KERNEL_STAGE = "kernel and modules"
RECIPE = "2"  # part of the key: change it when this code changes what comes out
BOOT_PREFIX = "usr/lib/karotte-boot"  # where the Containerfile leaves what is not for the root file system
COMPRESSION_LEVEL = "9"  # zstd; 15 saves 3 % and takes three times as long


def rootfs_key(base: str | None, extra: Extra | None = None) -> str:
    """What the content of a root file system depends on."""
    if base is not None and not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._/:@+-]{0,254}", base):
        raise ConfigError(f"{base!r} is no name of a container image; one looks like debian:12-slim")
    running = hashlib.sha256(f"{RECIPE} {platform.machine()} {base or image_base.base_key()}\n".encode())
    if extra is not None:
        running.update(f"extra {extra.digest}\n".encode())
    for path in (CONTAINERFILE, *(initramfs.BOOT / name for name in ("install.sh", "harden.sh"))):
        running.update(hashlib.sha256(path.read_bytes()).digest())
    return running.hexdigest()[:32]


def build_rootfs(directory: Path, base: str | None, progress: Progress, extra: Extra | None = None) -> None:
    """Make the cache entry's content: rootfs.squashfs, vmlinuz, the parts of early boot and about.json."""
    _check_tools(base)
    log = cache.cache_root() / image_command.LOG_NAME
    log.write_text("")
    scratch = directory / "scratch"
    scratch.mkdir()
    command = Command(scratch, log, progress)
    tar = scratch / "tree.tar"
    source = base if base is not None else image_base.base_tar(log, progress)
    builder = image_container.find_builder()
    if extra is not None:
        source = _build_extra(builder, command, extra, source)
    builder.build(command, CONTAINERFILE, initramfs.BOOT, source, tar)
    progress(KERNEL_STAGE, 0.0)
    _take_kernel(tar, scratch, directory)
    progress(KERNEL_STAGE, 1.0)
    _compress(command, tar, directory / "rootfs.squashfs")
    shutil.rmtree(scratch)


def _build_extra(builder: image_container.Builder, command: Command, extra: Extra, base: str | Path) -> Path:
    """The environment's own layer on the base, as a tar that takes the base's place."""
    context = extra.context
    if not context.is_dir():
        context = command.scratch / "no-context"
        context.mkdir()
    tar = command.scratch / "extra.tar"
    builder.build(command, extra.containerfile, context, base, tar)
    return tar


def _check_tools(base: str | None) -> None:
    """Everything that would only show after minutes of work, before any."""
    if not find_tool("mksquashfs"):
        raise ImageError("mksquashfs is missing; install the package squashfs-tools")
    require_free_space(cache.cache_root())
    image_container.find_builder()
    if base is None and not (cache.cache_root() / "base" / image_base.base_key()).is_dir():
        image_base.check_base_tools()


def _take_kernel(tar: Path, scratch: Path, directory: Path) -> None:
    """Kernel, modules in order, busybox and a few facts, out of the exported tree."""
    boot = scratch / "boot"
    _extract_files(tar, BOOT_PREFIX + "/", boot)
    if lacking := missing_features(boot / "config"):
        raise ImageError(f"the image's kernel lacks {', '.join(lacking)}; use a Debian cloud kernel")
    modules = load_order(boot / "modules", platform.machine())
    for name, data in modules:
        (directory / name).write_bytes(data)
    for name in ("vmlinuz", "busybox"):
        shutil.copyfile(boot / name, directory / name)
    facts = {
        "kernel_release": (boot / "release").read_text().strip(),
        "python_tag": (boot / "python").read_text().strip(),
        "modules": [name for name, _ in modules],
    }
    (directory / "about.json").write_text(json.dumps(facts, indent=1) + "\n")


def _extract_files(tar: Path, prefix: str, into: Path) -> None:
    """The regular files below `prefix`; `TarFile.extractall` is safe from Python 3.11.4 on, and Debian has 3.11.2."""
    with tarfile.open(tar) as archive:
        for member in archive:
            name = member.name.removeprefix("./").lstrip("/")
            if member.isfile() and name.startswith(prefix) and ".." not in Path(name).parts:
                target = into / name.removeprefix(prefix)
                target.parent.mkdir(parents=True, exist_ok=True)
                source = archive.extractfile(member)
                assert source is not None
                with source, open(target, "wb") as file:
                    shutil.copyfileobj(source, file)


def _compress(command: Command, tar: Path, squashfs: Path) -> None:
    program = find_tool("mksquashfs")
    assert program is not None
    # Of a tar, mksquashfs 4.5 gives the root directory to whoever runs it, whatever -root-uid says.
    as_root = [] if os.geteuid() == 0 else [find_tool("unshare") or "unshare", "--user", "--map-root-user"]
    argv = [
        *as_root,
        program,
        "-",
        str(squashfs),
        "-tar",
        "-noappend",
        "-comp",
        "zstd",
        "-Xcompression-level",
        COMPRESSION_LEVEL,
    ]
    # Times come from SOURCE_DATE_EPOCH in the command's environment, so equal content gives equal bytes.
    argv += ["-no-xattrs", "-no-progress", "-info"]
    # The root directory would be open to all; /dev and the names of the building host stay out.
    argv += ["-root-mode", "0755"]
    argv += ["-wildcards", "-e", BOOT_PREFIX, "dev/*", "etc/hostname", "etc/hosts", "etc/resolv.conf"]
    command.run(COMPRESS_STAGE, argv, expected_lines=9000, hint="see what it said", stdin=tar)
