"""Puts a scoring script alone into a directory, content-addressed in the cache, and digests what a score depends on.

The environment's folder can't be the drive: it holds the solution and the attacks beside the script.
"""

from __future__ import annotations

import hashlib
import os
from functools import lru_cache
from pathlib import Path

from karotte_gym.errors import ConfigError
from karotte_gym.sandbox.cache import publish

__all__ = ["digest_of", "read_script", "stage"]

MAX_SCRIPT_BYTES = 1024 * 1024


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
    files = sorted(path for path in directory.rglob("*") if path.is_file())
    facts = tuple((str(path.relative_to(directory)), path.stat().st_size, path.stat().st_mtime_ns) for path in files)
    return _digest_of_files(directory, facts)


@lru_cache(maxsize=64)
def _digest_of_files(directory: Path, facts: tuple[tuple[str, int, int], ...]) -> str:
    digest = hashlib.sha256()
    for name, _, _ in facts:
        with open(directory / name, "rb") as stream:
            content = hashlib.file_digest(stream, "sha256").hexdigest()
        digest.update(f"{name}\0{content}\n".encode())
    return digest.hexdigest()
