"""`Service`: a program that must answer while the live machine is graded, in a task with ``grade_in="student"``."""

from __future__ import annotations

import re
from dataclasses import dataclass

from karotte_gym.errors import ConfigError

__all__ = ["Service"]

MIB = 1024 * 1024
FROM_ROOT = "/workdir/shared/"  # the only files of a student's machine that are an author's and can't be changed in it
_NAME = re.compile(r"[a-z][a-z0-9-]{0,31}")
_EXAMPLE = 'Service("web", ("/usr/bin/python3", "/workdir/app/server.py"), files=("/workdir/app",), port=8080)'


@dataclass(frozen=True, slots=True)
class Service:
    """One program; it never runs as the student, and never with any right that the student did not have.

    By default it is *restarted*: started by root when all of the student's processes are dead, from the copy of `files`
    that custody took (each a submission path of the step, or below one), which it sees read-only at the same paths.
    With ``keep=True`` it is *kept running*: started before the student's first call from the task's own
    ``shared_data/``, reached by the student over loopback only, and left alone by custody.

    Either way: a user of its own, the student's filter of system calls, no capability, a private /tmp, a loopback
    interface, bounded memory and processes. `port` is waited for, `ready_timeout_s` at most; a service that is not
    ready by then is graded as it is.
    """

    name: str
    argv: tuple[str, ...]
    files: tuple[str, ...] = ()
    keep: bool = False
    port: int | None = None
    ready_timeout_s: float = 20.0
    memory_bytes: int = 128 * MIB
    process_count: int = 32

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not _NAME.fullmatch(self.name):
            raise ConfigError(f"service name {self.name!r} must be a-z, 0-9 and dashes, 32 at most: {_EXAMPLE}")
        if not _texts(self.argv) or not self.argv or not self.argv[0].startswith("/"):
            raise ConfigError(f"service {self.name}: argv must begin with a program's absolute path: {_EXAMPLE}")
        if not _texts(self.files) or self.keep == bool(self.files):
            raise ConfigError(f"service {self.name}: name its files, or say keep=True and none: {_EXAMPLE}")
        if self.keep and not any(word.startswith(FROM_ROOT) for word in self.argv):
            raise ConfigError(f"service {self.name}: a kept service runs a file of shared_data/, seen at {FROM_ROOT}")
        if self.port is not None and (type(self.port) is not int or not 1024 <= self.port <= 65535):
            raise ConfigError(f"service {self.name}: port {self.port!r} must be from 1024 to 65535")
        if type(self.ready_timeout_s) not in (int, float) or not 0 < self.ready_timeout_s <= 600:
            raise ConfigError(f"service {self.name}: ready_timeout_s must be from 0 to 600 seconds")
        if type(self.memory_bytes) is not int or self.memory_bytes < 16 * MIB:
            raise ConfigError(f"service {self.name}: memory_bytes must be at least {16 * MIB}")
        if type(self.process_count) is not int or self.process_count < 1:
            raise ConfigError(f"service {self.name}: process_count must be at least 1")


def _texts(value: object) -> bool:
    return isinstance(value, tuple) and all(isinstance(text, str) and text and "\0" not in text for text in value)
