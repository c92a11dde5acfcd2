"""What a privileged process may inherit: almost nothing. Environments are reduced, programs found in fixed places only.

The attacks: a directory of the student's in PATH, a library in LD_PRELOAD, a module in PYTHONPATH, a script in
BASH_ENV. Removing a variable is not enough for the process that already has it, because the loader and the
interpreter read it before any code of ours ran; `restart_clean` therefore starts the process again.
"""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Mapping, Sequence

__all__ = ["SYSTEM_PATH", "clean_environment", "is_trusted", "reduce", "restart_clean", "trusted_program"]

SYSTEM_DIRECTORIES = ("/usr/sbin", "/usr/bin", "/sbin", "/bin")
SYSTEM_PATH = ":".join(SYSTEM_DIRECTORIES)
_DIRECTORY_LISTS = ("PATH", "LD_LIBRARY_PATH")  # reduced to what can be trusted
_FILE_LISTS = ("LD_PRELOAD", "LD_AUDIT")  # separated by colons or spaces
_KEPT = ("LANG", "LC_ALL", "LC_CTYPE", "TERM", "TZ", "HOME")  # values that name no code, if they look it
_MAX_VALUE_CHARS = 256


def clean_environment(home: str = "/") -> dict[str, str]:
    """The environment that a privileged process is given from scratch."""
    trusted = [directory for directory in SYSTEM_DIRECTORIES if is_trusted(directory)]
    return {"HOME": home, "LANG": "C.UTF-8", "PATH": ":".join(trusted)}


def reduce(environment: Mapping[str, str]) -> dict[str, str]:
    """The part of `environment` that is harmless. A list of what is kept, because nobody knows all that is not."""
    reduced = {name: value for name in _KEPT if _is_plain(value := environment.get(name, ""))}
    for name in _DIRECTORY_LISTS:
        reduced[name] = ":".join(entry for entry in environment.get(name, "").split(":") if is_trusted(entry))
    for name in _FILE_LISTS:
        entries = environment.get(name, "").replace(" ", ":").split(":")
        reduced[name] = ":".join(entry for entry in entries if is_trusted(entry))
    reduced["PATH"] = reduced["PATH"] or clean_environment()["PATH"]
    return {name: value for name, value in reduced.items() if value}


def restart_clean(arguments: Sequence[str]) -> None:
    """Start this interpreter again, isolated and with the reduced environment; returns when nothing has to change.

    `arguments` are what follows the interpreter's own options: a script's path and its arguments.
    """
    reduced = reduce(os.environ)
    isolated = sys.flags.isolated and sys.flags.no_site and sys.flags.dont_write_bytecode
    if isolated and dict(os.environ) == reduced:
        return
    os.execve(sys.executable, [sys.executable, "-I", "-S", "-B", *arguments], reduced)


def trusted_program(name: str) -> str:
    """Absolute path of a privileged helper, looked for in fixed directories whatever PATH says. FileNotFoundError."""
    if not name or "/" in name:
        raise FileNotFoundError(f"{name!r} is no plain program name")
    for directory in SYSTEM_DIRECTORIES:
        path = f"{directory}/{name}"
        if os.access(path, os.X_OK) and is_trusted(path):
            return path
    raise FileNotFoundError(f"no root-owned {name} that only root can write in {SYSTEM_PATH}")


def is_trusted(path: str) -> bool:
    """The path is absolute, exists, and nobody but root can change what it leads to: it, its links, its directories."""
    if not path.startswith("/"):
        return False
    resolved = os.path.realpath(path)
    return _only_root_writes(resolved) and all(
        _only_root_writes(each) for each in (*_directories_of(path), *_directories_of(resolved))
    )


def _directories_of(path: str) -> list[str]:
    parts = [part for part in os.path.dirname(os.path.normpath(path)).split("/") if part]
    return ["/", *("/" + "/".join(parts[: depth + 1]) for depth in range(len(parts)))]


def _only_root_writes(path: str) -> bool:
    try:
        status = os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return False
    if status.st_uid != 0:
        return False
    return stat.S_ISLNK(status.st_mode) or not status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)


def _is_plain(value: str) -> bool:
    return 0 < len(value) <= _MAX_VALUE_CHARS and value.isascii() and all(c.isalnum() or c in "_./@:+,-" for c in value)
