"""Puts a scoring script alone into a directory, content-addressed in the cache, and digests what a score depends on.

The environment's folder can't be the drive: it holds the solution and the attacks beside the script.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator
from functools import lru_cache
from pathlib import Path

from karotte_gym.entry_points import PARTS_OF_AN_ENVIRONMENT
from karotte_gym.errors import ConfigError
from karotte_gym.sandbox.cache import publish

__all__ = ["digest_of", "digest_of_modules", "read_script", "stage"]

MAX_SCRIPT_BYTES = 1024 * 1024
_CONTEXTS = frozenset({"image", "grader_image"})  # what goes into images, which is digested with them


def read_script(path: Path) -> bytes:
    """The script's text, compiled once here: a mistake of the author's must not look like a submission's zero."""
    try:
        code = path.read_bytes()
    except OSError as error:
        said = f"scoring script {path} can't be read: {error.strerror}"
        raise ConfigError(f"{said}; write it there, or name another: ExecutableJudge(script=...)") from error
    if len(code) > MAX_SCRIPT_BYTES:
        raise ConfigError(f"scoring script {path} has {len(code)} bytes; {MAX_SCRIPT_BYTES} is the most")
    try:
        compile(code, str(path), "exec", dont_inherit=True)
    except (SyntaxError, ValueError) as error:
        raise ConfigError(f"scoring script {path} is no Python: {error}") from error
    return code


def stage(name: str, code: bytes) -> str:
    """A directory that holds the script and nothing else."""

    def build(directory: Path) -> None:
        inner = directory / "grade"
        inner.mkdir(mode=0o755)
        (inner / name).write_bytes(code)
        os.chmod(inner / name, 0o644)
        os.utime(inner / name, (0, 0))

    key = hashlib.sha256(name.encode() + b"\0" + code).hexdigest()
    return str(publish("drive", f"grade-{key}", build) / "grade")


def digest_of(directory: Path) -> str:
    """Digest of the names and contents of all files below a directory, "" when it is not there.

    Remembered as long as no file's size or time changes: grading data may be gigabytes, and every record names it.
    """
    if not directory.is_dir():
        return ""
    return _digest(directory, (path for path in directory.rglob("*") if path.is_file()))


def digest_of_modules(folder: Path) -> str:
    """The same of an environment's own Python files, which its judge may import; not of tools, attacks and data.

    Of a folder that is no package, such as one of scripts, those directly in it.
    """
    if not folder.is_dir():
        return ""
    return _digest(folder, _modules(folder, below=(folder / "__init__.py").is_file()))


def _modules(folder: Path, *, below: bool) -> Iterator[Path]:
    for path in folder.iterdir():
        if path.suffix == ".py" and path.is_file():
            yield path
        elif below and path.is_dir() and not path.is_symlink() and not _holds_no_module(path.name):
            yield from _modules(path, below=True)


def _holds_no_module(name: str) -> bool:
    return name in PARTS_OF_AN_ENVIRONMENT or name in _CONTEXTS or name.startswith(".") or name == "__pycache__"


def _digest(directory: Path, files: Iterable[Path]) -> str:
    facts = ((str(path.relative_to(directory)), path.stat()) for path in sorted(files))
    return _digest_of_files(directory, tuple((name, each.st_size, each.st_mtime_ns) for name, each in facts))


@lru_cache(maxsize=64)
def _digest_of_files(directory: Path, facts: tuple[tuple[str, int, int], ...]) -> str:
    digest = hashlib.sha256()
    for name, _, _ in facts:
        with open(directory / name, "rb") as stream:
            content = hashlib.file_digest(stream, "sha256").hexdigest()
        digest.update(f"{name}\0{content}\n".encode())
    return digest.hexdigest()
