"""Checks of a `Task` class as a whole, when Python reads it: fail where the mistake is made."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING

from karotte_gym.errors import ConfigError
from karotte_gym.service import Service
from karotte_gym.tools.builtin import BUILTIN
from karotte_gym.tools.own_files import SUBMIT, tool_files

if TYPE_CHECKING:
    from karotte_gym.task import Task

__all__ = ["check_grading", "check_submission_paths", "check_tools", "file_of"]

MIB = 1024 * 1024
SUBMISSION_ROOT = "/workdir"
GRADE_IN = ("grader", "student")
NO_FILE = "no file"  # of a class that was typed in: it can be looked at, and has no folder to be played from
MAX_NAME_BYTES = 255  # of a name and
MAX_PATH_BYTES = 4095  # of a path, in Linux: nothing longer can ever be handed in


def file_of(cls: type) -> str:
    """The file that defines a class."""
    try:
        return inspect.getfile(cls)
    except (TypeError, OSError):
        return NO_FILE


def check_tools(cls: type[Task], where: str) -> None:
    """By names alone: an author's tool is loaded when an environment is made, not when the task is defined."""
    if not isinstance(cls.tools, (tuple, list)) or not all(isinstance(name, str) for name in cls.tools):
        raise ConfigError(f'{where}: tools must be a tuple of names: tools = ("bash",)')
    own = {} if file_of(cls) == NO_FILE else tool_files(cls.folder())
    unknown = sorted(set(cls.tools) - set(BUILTIN) - set(own))
    if unknown:
        choices = [name for name in {**BUILTIN, **own} if name != SUBMIT]
        raise ConfigError(f"{where}: unknown tools {unknown}: write tools/{unknown[0]}.py or name some of {choices}")
    twice = sorted({name for name in cls.tools if list(cls.tools).count(name) > 1})
    if twice:
        raise ConfigError(f"{where}: tools names {', '.join(twice)} more than once")


def check_grading(cls: type[Task], where: str) -> None:
    """Where it is graded, what answers meanwhile, and whether the machine has what the judge gives away."""
    if cls.grade_in not in GRADE_IN:
        raise ConfigError(f'{where}: grade_in must be "grader" or "student", not {cls.grade_in!r}')
    _check_services(cls, where)
    name = "hardware" if cls.grade_in == "student" else "grader_hardware"
    memory_mib = getattr(cls, name).memory_mib
    for number, step in enumerate(cls.steps, start=1):
        if step.judge.grader_memory_bytes > memory_mib * MIB:
            raise ConfigError(
                f"{where}: the judge of step {number} may use {step.judge.grader_memory_bytes} bytes, and its machine has "
                f"{memory_mib} MiB: lower its memory_bytes, or set {name} = Hardware(memory_mib=...)"
            )


def _check_services(cls: type[Task], where: str) -> None:
    if not isinstance(cls.services, tuple) or not all(isinstance(service, Service) for service in cls.services):
        raise ConfigError(f"{where}: services must be a tuple of Service: services = (Service(...),)")
    if cls.services and cls.grade_in == "grader":
        raise ConfigError(f'{where}: services answer in a live machine only: add grade_in = "student"')
    if len({service.name for service in cls.services}) != len(cls.services):
        raise ConfigError(f"{where}: two services have the same name")
    for number, step in enumerate(cls.steps, start=1):
        for path in (path for service in cls.services for path in service.files):
            if not any(f"{path}/".startswith(f"{submitted}/") for submitted in step.submission_paths):
                raise ConfigError(f"{where}: step {number} must hand in {path}, which a service is restarted from")


def check_submission_paths(paths: object) -> None:
    """Each can be handed in and is named once. ConfigError names the path."""
    if isinstance(paths, str):
        raise ConfigError(f"submission_paths must be a tuple: ({paths!r},)")
    if not isinstance(paths, (tuple, list)):
        raise ConfigError(f'submission_paths must be a tuple: ("/workdir/x.txt",), not {paths!r}')
    for path in paths:
        _check_submission_path(path)
    for number, path in enumerate(paths):
        if path in paths[:number]:
            raise ConfigError(f"submission path {path!r} is named twice; name it once")
        for other in paths:
            if path.startswith(f"{other}/"):
                raise ConfigError(
                    f"submission path {path!r} lies in {other!r}, which is handed in as a whole; name one of them"
                )


def _check_submission_path(path: object) -> None:
    if not isinstance(path, str):
        raise ConfigError(f'submission path {path!r} must be text: "/workdir/x.txt"')
    parts = path.split("/")
    if not path.startswith(SUBMISSION_ROOT + "/") or "" in parts[1:] or "." in parts or ".." in parts:
        raise ConfigError(f'submission path {path!r} must be absolute and below {SUBMISSION_ROOT}: "/workdir/x.txt"')
    if not path.isprintable():
        raise ConfigError(f"submission path {path!r} holds a character that can't be seen: instructions could not name it")
    if any(len(part.encode()) > MAX_NAME_BYTES for part in parts):
        raise ConfigError(f"submission path {path!r:.100}...: no name in it may have more than {MAX_NAME_BYTES} bytes")
    if len(path.encode()) > MAX_PATH_BYTES:
        raise ConfigError(f"submission path {path!r:.100}... has more than {MAX_PATH_BYTES} bytes")
