"""Finds environments and registers ``karotte/<task-id>`` with Gymnasium, which has no plugins of its own.

A task is named by a reference, plain text, so that a spec is JSON and means the same in a spawned worker:

- ``q3-revenue``             an environment that ships, or one of a registered project
- ``package.module``         a module with one `Task` in it; ``package.module:Class`` names one of several
- ``/path/to/envs/my_task``  an environment's folder outside any package

Registering reads names of folders only; a task's code is loaded when its environment is made. Environments come from
the package, from installed projects (see `karotte_gym.entry_points`) and from `register_project`. Two folders of one
name are an error: of two that a caller registers, the second raises; of two that happen to be installed, neither can be
made, for either would be a guess. What ships can't be displaced.
"""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path

import gymnasium
from gymnasium.envs.registration import WrapperSpec

from karotte_gym.entry_points import environment_folders, find_installed
from karotte_gym.errors import ConfigError
from karotte_gym.task import MAX_ID_CHARS, Task, is_task_id
from karotte_gym.task_loading import file_of_module, id_of, load_reference

__all__ = [
    "load_task",
    "refuse_task",
    "register_folders",
    "register_installed",
    "register_project",
    "register_shipped",
    "registered_tasks",
    "registration_problems",
]

NAMESPACE = "karotte"
ENTRY_POINT = "karotte_gym.env:KarotteEnv"
WRAPPERS = (
    WrapperSpec("CustodyGrading", "karotte_gym.wrappers.custody_grading:CustodyGrading", {}),
    WrapperSpec("MisbehaviorToZero", "karotte_gym.wrappers.misbehavior_to_zero:MisbehaviorToZero", {}),
)
SHIPPED = "karotte_gym.envs"
_problems: list[str] = []  # of what is installed, a sentence each
_origins: dict[str, str] = {}  # task id -> the distribution that brings it
_refused: dict[str, str] = {}  # task id that two distributions bring -> the sentence that names both


def register_shipped() -> None:
    """Register every environment of `karotte_gym.envs`; again and again is harmless."""
    for folder in environment_folders(_shipped_folder()):
        _register(id_of(folder), f"{SHIPPED}.{folder.name}")


def register_installed() -> None:
    """Register what installed projects declare. Never raises for their mistakes: see `registration_problems`."""
    found = find_installed()
    _problems[:] = found.problems
    for one in found.declared:
        try:
            _register_declared(one.task_id, one.reference, one.origin)
        except ConfigError as error:
            _problems.append(f"{one.origin}: {error}")


def registration_problems() -> list[str]:
    """What is wrong with installed projects, a sentence each that names the distribution."""
    return [*_problems, *_refused.values()]


def register_project(path: str | Path) -> list[str]:
    """Register every environment folder below `path` (or below its ``envs/``); returns their Gymnasium ids.

    ConfigError when there is none, and, after all others are registered, when a folder's name is no task's or is taken.
    """
    env_ids, wrong = register_folders(path)
    if wrong:
        raise ConfigError("; ".join(wrong.values()))
    return env_ids


def register_folders(path: str | Path) -> tuple[list[str], dict[str, str]]:
    """As `register_project`, but what can't be registered is returned, task id to sentence: it spoils none of the others.

    ConfigError when there is no environment at all.
    """
    if not isinstance(path, (str, os.PathLike)) or not os.fspath(path):
        raise ConfigError(f'a project is named by its folder: register_project("/path/to/project"), not {path!r}')
    try:
        root = Path(path).resolve()
        parent = root / "envs" if (root / "envs").is_dir() else root
        folders = list(environment_folders(parent)) if parent.is_dir() else []
    except (OSError, ValueError) as error:  # a name that is too long, a folder that may not be listed, a NUL
        said = error.strerror if isinstance(error, OSError) else error
        raise ConfigError(f"the project {os.fspath(path)!r:.300} can't be read: {said}") from error
    if not folders and (root / "__init__.py").is_file():
        raise ConfigError(f"{root} is an environment's own folder: give its parent folder {root.parent}")
    if not folders:
        raise ConfigError(f"{parent} holds no environment: a folder with an __init__.py that defines a Task")
    env_ids, wrong = [], {}
    for folder in folders:
        try:
            env_ids.append(_register(id_of(folder), str(folder)))
        except ConfigError as error:
            wrong[id_of(folder)] = str(error)
    return env_ids, wrong


def refuse_task(task_id: str, sentence: str) -> None:
    """Let nobody load `task_id` in this process: two folders claim it, and either would be a guess."""
    _refused[task_id] = sentence


def registered_tasks() -> dict[str, str]:
    """Task id to reference, of everything registered in this process, sorted."""
    found = {}
    for spec in gymnasium.registry.values():
        if spec.namespace == NAMESPACE and spec.entry_point == ENTRY_POINT:
            found[spec.name] = str(spec.kwargs["task"])
    return dict(sorted(found.items()))


def load_task(reference: str) -> type[Task]:
    """The task class that a reference names. ConfigError names the file or the choices."""
    if not isinstance(reference, str) or not reference:
        raise ConfigError(f"a task is named by text such as 'q3-revenue', not by {reference!r}")
    known = registered_tasks()
    name = reference.removeprefix(NAMESPACE + "/")
    if name in _refused:
        raise ConfigError(_refused[name])
    place = known.get(name, reference)
    _check_form(place, known)
    ids = sorted(task_id for task_id, of in known.items() if of == place)
    task = _load(place, ids)
    if ids and task.id not in ids:
        raise ConfigError(f"the folder {task.folder()} is named for {ids[0]!r}, but its Task has the id {task.id!r}")
    return task


def _check_form(place: str, known: dict[str, str]) -> None:
    """A word that is no module and no folder is a task's id, and one that is not registered."""
    module, _, wanted = place.partition(":")
    is_module = "/" not in module and ("." in module or wanted or place in known.values())
    if not place.startswith("/") and not is_module:
        raise ConfigError(f"no task {place!r}; there are: {', '.join(known) or 'none'}")


def _load(place: str, ids: list[str]) -> type[Task]:
    """With the distribution that brings it in the error: a package that is gone leaves its metadata behind."""
    try:
        return load_reference(place)
    except ConfigError as error:
        origins = [_origins[task_id] for task_id in ids if task_id in _origins]
        if not origins:
            raise
        raise ConfigError(f"{error} (brought by {origins[0]})") from error


def _register_declared(task_id: str, reference: str, origin: str) -> None:
    """As `_register`; an id that another distribution has brought, too, is taken from both."""
    if task_id in _refused:
        return
    other = _origins.get(task_id)
    try:
        _register(task_id, reference)
    except ConfigError:
        if other is None or other == origin:
            raise
        _refused[task_id] = f"two installed projects bring the task {task_id!r}: {other} and {origin}; uninstall one"
        gymnasium.registry.pop(f"{NAMESPACE}/{task_id}", None)
        _register(task_id, task_id)
    else:
        _origins.setdefault(task_id, origin)


def _register(task_id: str, reference: str) -> str:
    if not is_task_id(task_id):
        folder = task_id.replace("-", "_")
        form = f"a-z, 0-9, single underscores, no ending _v1, {MAX_ID_CHARS} letters at most"
        raise ConfigError(f'{reference}: {folder!r} must be named like "my_task": {form}')
    env_id = f"{NAMESPACE}/{task_id}"
    there = gymnasium.registry.get(env_id)
    if there is not None and not _same_place(str(there.kwargs.get("task")), reference):
        raise ConfigError(f"task {task_id!r} of {reference} is already registered from {there.kwargs.get('task')}")
    if there is None:
        gymnasium.register(
            env_id,
            entry_point=ENTRY_POINT,
            nondeterministic=True,  # a machine has clocks and schedulers; the first observation is deterministic
            disable_env_checker=True,  # it breaks all steps after a first reset that raised
            additional_wrappers=WRAPPERS,
            kwargs={"task": reference},
        )
    return env_id


def _same_place(one: str, other: str) -> bool:
    """Whether two references mean one file: an installed project is registered by its folder, too, when it is tested."""
    return one == other or (_file_of(one) is not None and _file_of(one) == _file_of(other))


def _file_of(reference: str) -> Path | None:
    """The file of a folder or module; None for a class in a module, which shares its file with others."""
    if reference.startswith("/"):
        return Path(reference, "__init__.py").resolve()
    return None if ":" in reference else file_of_module(reference)


def _shipped_folder() -> Path:
    spec = importlib.util.find_spec(SHIPPED)
    if spec is None or not spec.submodule_search_locations:
        raise ConfigError(f"the package {SHIPPED} is not installed; install karotte-gym again")
    return Path(next(iter(spec.submodule_search_locations)))
