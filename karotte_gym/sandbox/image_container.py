"""The Containerfile is built by whichever of buildah, podman and docker works here; out comes a tar of the whole tree.

Buildah keeps its storage in the scratch directory of the build, so that nothing stays behind and nothing is shared
with the user's own containers; it needs no daemon and, with `--isolation chroot`, no privileges beyond root's.
Podman and docker build in their own storage, under a tag that is removed afterwards.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from abc import ABC, abstractmethod
from pathlib import Path

from karotte_gym.errors import ConfigError, ImageError
from karotte_gym.sandbox.cache_entry import remove_tree
from karotte_gym.sandbox.image_command import Command, find_tool

__all__ = ["STAGE", "Builder", "find_builder"]

STAGE = "packages and hardening"
IMPORT_STAGE = "import of the base"
EXPECTED_LINES = 330  # of a build's output, on bookworm
HINT = "it fetches Debian packages: check the network and the proxy; KAROTTE_GYM_BUILDER chooses another builder"


class Builder(ABC):
    """One program that builds containers."""

    name: str

    def __init__(self, program: str):
        self.program = program

    @abstractmethod
    def works(self) -> str | None:
        """None when it can build here, else the reason."""

    @abstractmethod
    def build(self, command: Command, containerfile: Path, context: Path, base: str | Path, tar: Path) -> None:
        """Build on `base` (a tar, or the name of an image) and write the resulting tree to `tar`."""


class Buildah(Builder):
    name = "buildah"

    def works(self) -> str | None:
        if os.geteuid() and not find_tool("newuidmap"):
            return "it needs newuidmap (package uidmap) when not run by root"
        return None

    def build(self, command: Command, containerfile: Path, context: Path, base: str | Path, tar: Path) -> None:
        storage = command.scratch / "storage"
        options = ["--isolation", "chroot", "--layers=false", "--format", "oci"]
        start = [self.program, "--root", str(storage / "root"), "--runroot", str(storage / "run")]
        start += ["--storage-driver", "vfs", "bud", *options]
        try:
            name = base if isinstance(base, str) else _import_base(command, start, base)
            arguments = ["--build-arg", f"BASE={name}", "-f", str(containerfile), "-t", "localhost/karotte:built"]
            output = ["--output", f"type=tar,dest={tar}"]
            command.run(STAGE, [*start, *arguments, *output, str(context)], expected_lines=EXPECTED_LINES, hint=HINT)
        finally:
            remove_tree(storage)


class Podman(Builder):
    """Podman, and docker, which takes the same words."""

    name = "podman"

    def works(self) -> str | None:
        asked = subprocess.run([self.program, "info"], stdin=subprocess.DEVNULL, capture_output=True, timeout=60, check=False)
        return None if asked.returncode == 0 else f"`{self.name} info` fails"

    def build(self, command: Command, containerfile: Path, context: Path, base: str | Path, tar: Path) -> None:
        tag = f"localhost/karotte-build-{os.getpid()}"
        start, made = [self.program, "build", "--no-cache"], [f"{tag}:built"]
        try:
            name = base
            if isinstance(base, Path):
                made.append(f"{tag}:base")
                name = _import_base(command, start, base, f"{tag}:base")
            arguments = ["--build-arg", f"BASE={name}", "-f", str(containerfile), "-t", f"{tag}:built", str(context)]
            command.run(STAGE, [*start, *arguments], expected_lines=EXPECTED_LINES, hint=HINT)
            self._export(f"{tag}:built", tar)
        finally:
            for image in made:
                subprocess.run([self.program, "rmi", "-f", image], capture_output=True, check=False)

    def _export(self, image: str, tar: Path) -> None:
        made = subprocess.run([self.program, "create", image, "/bin/true"], capture_output=True, check=True, text=True)
        container = made.stdout.strip().splitlines()[-1]
        try:
            subprocess.run([self.program, "export", "-o", str(tar), container], capture_output=True, check=True)
        finally:
            subprocess.run([self.program, "rm", "-f", container], capture_output=True, check=True)


class Docker(Podman):
    name = "docker"


_BUILDERS: tuple[type[Builder], ...] = (Buildah, Podman, Docker)


def find_builder() -> Builder:
    """The builder named by KAROTTE_GYM_BUILDER, else the first that works. ImageError says what to install."""
    wanted = os.environ.get("KAROTTE_GYM_BUILDER")
    kinds = [kind for kind in _BUILDERS if wanted in (None, "", kind.name)]
    if not kinds:
        raise ConfigError(f"KAROTTE_GYM_BUILDER is {wanted!r}; it must be one of buildah, podman, docker")
    reasons = []
    for kind in kinds:
        program = find_tool(kind.name)
        reason = kind(program).works() if program else "not installed"
        if program and reason is None:
            return kind(program)
        reasons.append(f"{kind.name}: {reason}")
    raise ImageError(f"no program builds containers here ({'; '.join(reasons)}); install the package buildah")


def _import_base(command: Command, start: list[str], tar: Path, tag: str = "localhost/karotte:base") -> str:
    """Make an image of a tar; the tar is hard-linked into a build context of its own."""
    context = command.scratch / "base-context"
    context.mkdir()
    try:
        _link_or_copy(tar, context / "base.tar")
        (context / "Containerfile").write_text("FROM scratch\nADD base.tar /\n")
        argv = [*start, "-t", tag, "-f", str(context / "Containerfile"), str(context)]
        command.run(IMPORT_STAGE, argv, expected_lines=10, hint="see what it said")
    finally:
        shutil.rmtree(context)
    return tag


def _link_or_copy(source: Path, target: Path) -> None:
    try:
        os.link(source, target)
    except OSError:  # another file system, or a hard link that the kernel's protection refuses
        shutil.copyfile(source, target)
