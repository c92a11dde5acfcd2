"""An environment's own `Containerfile`: extra packages and files in the image of one of its machines.

It begins with ``ARG BASE`` and builds ``FROM ${BASE}``, the Debian root file system that all images start from. What the
base image adds (Python, the student, the guest) and above all its hardening come *after* it, so that a package which
brings a set-uid program or a writable directory changes nothing about what a student can do. The build's context is the
directory ``image/`` beside the Containerfile (``grader_image/`` beside ``grader.Containerfile``) and never the folder
itself, which holds solution, grading data and scoring script.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from pathlib import Path

from karotte_gym.errors import ConfigError
from karotte_gym.sandbox import drive

__all__ = ["Extra", "extra_of", "signature"]

CONTEXTS = {"Containerfile": "image", "grader.Containerfile": "grader_image"}
MAX_BYTES = 1024 * 1024
_FROM_BASE = re.compile(r"^FROM\s+(\$\{BASE\}|\$BASE)(\s|$)", re.MULTILINE)
_LAST_FROM = re.compile(r"^FROM\s+(\S+)", re.MULTILINE | re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Extra:
    """A Containerfile and its context, which may be absent."""

    containerfile: Path
    context: Path

    @property
    def digest(self) -> str:
        """What the build depends on. ConfigError when it can't be read or does not build on the base."""
        code = self._text()
        tree = drive.digest_tree("image", str(self.context)) if self.context.is_dir() else ""
        return hashlib.sha256(f"{hashlib.sha256(code).hexdigest()} {tree}".encode()).hexdigest()

    def _text(self) -> bytes:
        try:
            code = self.containerfile.read_bytes()
        except OSError as error:
            raise ConfigError(f"{self.containerfile} can't be read: {error.strerror}") from error
        text = code[:MAX_BYTES].decode("utf-8", "replace")
        if len(code) > MAX_BYTES or not _FROM_BASE.search(text) or not _LAST_FROM.findall(text)[-1].startswith("$"):
            raise ConfigError(f"{self.containerfile} must build on the base image: begin it with ARG BASE and FROM ${{BASE}}")
        return code


def extra_of(containerfile: str | None) -> Extra | None:
    """The Containerfile at that path and its context."""
    if containerfile is None:
        return None
    path = Path(containerfile)
    return Extra(path, path.parent / CONTEXTS.get(path.name, "image"))


def signature(containerfile: str | None) -> tuple[object, ...]:
    """What tells cheaply whether it may have changed; no byte is read."""
    extra = extra_of(containerfile)
    if extra is None or not extra.containerfile.is_file():
        return ()
    facts = extra.containerfile.stat()
    context = drive.signature((("image", str(extra.context)),)) if extra.context.is_dir() else ()
    return (facts.st_size, facts.st_mtime_ns, facts.st_ino, context)
