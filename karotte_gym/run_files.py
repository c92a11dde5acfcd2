"""The files of a run: written durably and never over another's, read as plain files of bounded size.

Who reads a run directory may have got it from somebody else. A link in it could make `verify` read, and report digests
of, any file of its user; a pipe could hold it up for ever; a huge record could fill its memory.
"""

from __future__ import annotations

import contextlib
import json
import os
import stat
import tempfile
from pathlib import Path
from typing import Any

from karotte_gym.errors import ConfigError, EvidenceError

__all__ = ["BLOCK_BYTES", "json_text", "make_directory", "new_run_directory", "open_below", "read_bounded", "write_json"]

_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
BLOCK_BYTES = 1024 * 1024


def open_below(directory: Path, name: str) -> int:
    """Descriptor of the regular file `name` ("a" or "a/b") below `directory`, which itself may be a link of the user's.

    FileNotFoundError when it is not there, EvidenceError when it, or a folder on the way, is anything else.
    """
    *folders, last = name.split("/")
    if {"", ".", ".."} & {*folders, last} or "\0" in name:
        raise EvidenceError(f"{name!r:.200} is no name of an artifact")
    at = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for folder in folders:
            inner = os.open(folder, _FLAGS | os.O_DIRECTORY, dir_fd=at)
            os.close(at)
            at = inner
        found = os.open(last, _FLAGS, dir_fd=at)
    except FileNotFoundError:
        raise
    except OSError as error:  # ELOOP for a link, ENOTDIR for one on the way, ENXIO for a socket
        raise EvidenceError(f"{directory / name} is no plain file that can be read: {error.strerror}") from error
    finally:
        os.close(at)
    if not stat.S_ISREG(os.fstat(found).st_mode):
        os.close(found)
        raise EvidenceError(f"{directory / name} is no plain file")
    return found


def read_bounded(path: Path, max_bytes: int) -> bytes:
    """The whole file. EvidenceError when it is larger, no plain file or can't be read."""
    try:
        descriptor = open_below(path.parent, path.name)
    except OSError as error:
        raise EvidenceError(f"{path} can't be read: {error.strerror}") from error
    with os.fdopen(descriptor, "rb") as stream:
        size = os.fstat(descriptor).st_size
        data = stream.read(max_bytes + 1) if size <= max_bytes else b""
    if size > max_bytes or len(data) > max_bytes:
        raise EvidenceError(f"{path} has more than {max_bytes} bytes: nothing that karotte-gym wrote")
    return data


def make_directory(path: Path) -> None:
    """Make `path`, or find it there. ConfigError names it when it can't be made or nothing can be written in it."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except (OSError, ValueError) as error:  # ValueError: a NUL in the path
        raise ConfigError(f"run_dir {str(path)!r} can't be made: {getattr(error, 'strerror', None) or error}") from error
    if not os.access(path, os.W_OK | os.X_OK):
        raise ConfigError(f"run_dir {str(path)!r} is not writable; name a directory of yours")


def new_run_directory(parent: Path, run_id: str) -> Path:
    """A directory of this run's own. Refuses one that exists: an earlier run's evidence is never written over."""
    make_directory(parent)
    directory = parent / run_id
    try:
        directory.mkdir(mode=0o755)
    except FileExistsError:
        raise
    except OSError as error:
        raise ConfigError(f"run_dir {str(parent)!r}: {run_id} can't be made in it: {error.strerror}") from error
    return directory


def json_text(value: dict[str, Any]) -> str:
    """The one form in which a JSON file is written: what `verify` compares a record's bytes with."""
    return json.dumps(value, indent=1, ensure_ascii=True) + "\n"


def write_json(path: Path, value: dict[str, Any]) -> None:
    """Write atomically and durably: a reader sees the old file or the new one, also after a power cut."""
    text = json_text(value)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "w") as stream:
            stream.write(text)
            stream.flush()
            os.fchmod(stream.fileno(), 0o644)
            os.fsync(stream.fileno())
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)
        raise
    directory = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)
