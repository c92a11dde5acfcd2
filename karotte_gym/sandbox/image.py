"""What a machine boots from: root file system, kernel, and an initramfs with the guest's code; content-addressed.

`build_image` is cheap when nothing changed: it hashes the Containerfile, the build scripts and the guest's code and
finds the entry. When only guest code changed, a new initramfs is written beside hard links to the old root file system.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from karotte_gym.errors import ImageError
from karotte_gym.sandbox import cache, initramfs
from karotte_gym.sandbox.image_extra import Extra
from karotte_gym.sandbox.image_rootfs import build_rootfs, rootfs_key
from karotte_gym.sandbox.progress import Progress, silent

__all__ = ["Image", "base_image", "build_image", "find_image"]

RECIPE = "1"  # part of the id: change it when this code or initramfs.py changes what comes out
INITRAMFS_STAGE = "initramfs"


@dataclass(frozen=True, slots=True)
class Image:
    """A published image. Hold `cache.use(image.directory)` for as long as something runs from it."""

    id: str  # hash of all that it was made from
    rootfs_id: str  # the same without the guest's code: what says which kernel boots
    directory: Path
    rootfs: Path  # squashfs, zstd
    kernel: Path
    initramfs: Path
    manifest: Path
    kernel_release: str
    python_tag: str  # of the machine's Python, e.g. "cpython-311"


def base_image() -> Image:
    """The image of every machine that names no other; built when absent, which takes a minute and the network."""
    return build_image()


def build_image(base: str | None = None, progress: Progress | None = None, extra: Extra | None = None) -> Image:
    """The image on `base` (a container image's name; None: Debian made by mmdebstrap), built when absent or outdated.

    `extra`: what an environment's own Containerfile puts between the base and everything else.

    Raises ImageError (a tool, the network or the build), CacheError (the cache directory, no space) or ConfigError.
    """
    report = progress or silent
    with cache.obtain(
        "rootfs", rootfs_key(base, extra), lambda directory: build_rootfs(directory, base, report, extra), report
    ) as root:
        about = _about(root)
        code = initramfs.guest_code()

        def build(directory: Path) -> None:
            report(INITRAMFS_STAGE, 0.0)
            for name in ("rootfs.squashfs", "vmlinuz", "about.json"):
                _link_or_copy(root / name, directory / name)
            modules = [(name, (root / name).read_bytes()) for name in about.modules]
            early = initramfs.early_boot((root / "busybox").read_bytes(), modules)
            late = initramfs.cpio(initramfs.guest_members(code, about.python_tag))
            (directory / "initramfs").write_bytes(early + late)
            report(INITRAMFS_STAGE, 1.0)

        return _image(cache.publish("image", _key(root, code, about.python_tag), build, report), root, about)


def find_image(base: str | None = None, extra: Extra | None = None) -> Image | None:
    """The image that `build_image` would return, when it is there already."""
    root = cache.find("rootfs", rootfs_key(base, extra))
    if root is None:
        return None
    about = _about(root)
    entry = cache.find("image", _key(root, initramfs.guest_code(), about.python_tag))
    return _image(entry, root, about) if entry else None


@dataclass(frozen=True, slots=True)
class _About:
    kernel_release: str
    python_tag: str
    modules: tuple[str, ...]


def _key(root: Path, code: Mapping[str, bytes], python_tag: str) -> str:
    parts = [RECIPE, root.name, initramfs.guest_digest(code, python_tag)]
    parts.append(hashlib.sha256((initramfs.BOOT / "init").read_bytes()).hexdigest())
    return hashlib.sha256(" ".join(parts).encode()).hexdigest()[:32]


def _image(entry: Path, root: Path, about: _About) -> Image:
    return Image(
        id=entry.name,
        rootfs_id=root.name,
        directory=entry,
        rootfs=entry / "rootfs.squashfs",
        kernel=entry / "vmlinuz",
        initramfs=entry / "initramfs",
        manifest=entry / "manifest.json",
        kernel_release=about.kernel_release,
        python_tag=about.python_tag,
    )


def _about(root: Path) -> _About:
    try:
        facts = json.loads((root / "about.json").read_text(encoding="utf-8"))
        return _About(facts["kernel_release"], facts["python_tag"], tuple(facts["modules"]))
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ImageError(f"{root / 'about.json'} can't be read ({error}); run `karotte-gym cache prune --all`") from error


def _link_or_copy(source: Path, target: Path) -> None:
    try:
        os.link(source, target)
    except OSError:  # a file system without hard links
        shutil.copyfile(source, target)
