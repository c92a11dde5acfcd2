"""Names of projects and tasks, checked before anything is written: a bad one breaks later and elsewhere."""

from __future__ import annotations

import keyword
import re
import sys
from pathlib import Path

import karotte_gym
from karotte_gym.entry_points import PARTS_OF_AN_ENVIRONMENT, find_module
from karotte_gym.errors import ConfigError
from karotte_gym.registration import registered_tasks
from karotte_gym.task import ID_FORM, MAX_ID_CHARS, is_task_id

__all__ = ["check_new_task", "class_name_of", "example_id_of", "folder_name_of", "project_name_of"]

# Python finds one module by a name: a project of such a name would hide the other, or be hidden by it.
NAMES_IN_USE = {
    "envs": "a project's environments are in a folder of that name",
    "tests": "a project's tests are in a folder of that name",
    "docs": "documentation is looked for in a folder of that name",
    "build": "what is built goes into a folder of that name",
    "dist": "what is built goes into a folder of that name",
    "karotte": "karotte-gym uses that name",
    "karotte_gym": "karotte-gym uses that name",
    "karotte_grading": "scoring scripts import a module of that name",
    "wrappers": "karotte-gym has a folder of that name",
}


def project_name_of(target: Path, name: str | None) -> str:
    """`name`, or one made of the folder's. ConfigError when its package would be none or hide another."""
    wanted = re.sub(r"[\W_]+", "-", target.name.lower()).strip("-") if name is None else name
    if not is_task_id(wanted):
        raise ConfigError(f'the project can\'t be named {wanted!r}: give --name like "my-tasks": {ID_FORM}')
    if len(example_id_of(wanted)) > MAX_ID_CHARS:
        most = MAX_ID_CHARS - len(example_id_of(""))
        raise ConfigError(f"the project can't be named {wanted!r}: give a --name of at most {most} letters")
    package = folder_name_of(wanted)
    if package in NAMES_IN_USE:
        raise ConfigError(f"the project can't be named {wanted!r}: {NAMES_IN_USE[package]}; give another --name")
    if keyword.iskeyword(package) or package in sys.stdlib_module_names:
        raise ConfigError(f"the project can't be named {wanted!r}: Python has a {package} of its own; give another --name")
    there = find_module(package)
    if there is not None and there.origin is not None and not Path(there.origin).is_relative_to(target):
        raise ConfigError(f"the project can't be named {wanted!r}: {there.origin} has that name; give another --name")
    return wanted


def check_new_task(task_id: str, envs: Path) -> None:
    """ConfigError when `task_id` is no id, or is taken in `envs` or by what is installed."""
    if not is_task_id(task_id):
        raise ConfigError(f'task id {task_id!r} must be like "my-task": {ID_FORM}')
    name = folder_name_of(task_id)
    if name in PARTS_OF_AN_ENVIRONMENT:
        raise ConfigError(f"a task can't have the id {task_id!r}: a folder {name} is a part of an environment")
    if name in NAMES_IN_USE:
        raise ConfigError(f"a task can't have the id {task_id!r}: {NAMES_IN_USE[name]}; choose another")
    if (envs / name).exists():
        raise ConfigError(f"there is a task {task_id!r} already: {envs / name}")
    if task_id in registered_tasks():
        raise ConfigError(f"the id {task_id!r} is taken by {registered_tasks()[task_id]}; choose another")


def example_id_of(project_name: str) -> str:
    """The example's id: two installed projects must not both bring an ``example``."""
    return f"{project_name}-example"


def folder_name_of(task_id: str) -> str:
    """The folder of a task, or the package of a project."""
    return task_id.replace("-", "_")


def class_name_of(task_id: str) -> str:
    """The Task class's name; never a word of Python's nor a name that a task imports."""
    name = "".join(part.capitalize() for part in task_id.split("-"))
    return f"{name}Task" if keyword.iskeyword(name) or name in karotte_gym.__all__ else name
