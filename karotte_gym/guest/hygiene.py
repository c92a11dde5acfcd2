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
_MAX_STEPS = 200  # components of a path and of all links on the way; a loop of links ends here
_MAGIC = ("/proc/", "/dev/")  # links in there lead somewhere else for each process


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
    """The path is absolute, exists, and nobody but root can change where it leads: each directory, link and target.

    Links are followed here one by one, because a chain of them may pass through a place that others can write.
    """
    if not path.startswith("/"):
        return False
    here, to_go = "/", path.split("/")[::-1]
    for _ in range(_MAX_STEPS):
        if not _only_root_writes(here) or here.startswith(_MAGIC):
            return False
        if not to_go:
            return True
        part = to_go.pop()
        if part == "..":
            here = os.path.dirname(here)
        elif part not in ("", "."):
            here = os.path.join(here, part)
            if os.path.islink(here):
                if not _only_root_writes(here):
                    return False
                target = os.readlink(here)
                here = "/" if target.startswith("/") else os.path.dirname(here)
                to_go += target.split("/")[::-1]
    return False


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
