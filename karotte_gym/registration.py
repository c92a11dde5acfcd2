"""Finds environments and registers ``karotte/<task-id>`` with Gymnasium, which has no plugins of its own.

A task is named by a reference, plain text, so that a spec is JSON and means the same in a spawned worker:

- ``q3-revenue``             an environment that ships, or one of a registered project
- ``package.module``         a module with one `Task` in it; ``package.module:Class`` names one of several
- ``/path/to/envs/my_task``  an environment's folder outside any package

Registering reads names of folders only; a task's code is loaded when its environment is made.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import inspect
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import gymnasium
from gymnasium.envs.registration import WrapperSpec

from karotte_gym.errors import ConfigError
from karotte_gym.task import Task

__all__ = ["load_task", "register_project", "register_shipped", "registered_tasks"]

NAMESPACE = "karotte"
ENTRY_POINT = "karotte_gym.env:KarotteEnv"
WRAPPERS = (
    WrapperSpec("CustodyGrading", "karotte_gym.wrappers.custody_grading:CustodyGrading", {}),
    WrapperSpec("MisbehaviorToZero", "karotte_gym.wrappers.misbehavior_to_zero:MisbehaviorToZero", {}),
)
SHIPPED = "karotte_gym.envs"


def register_shipped() -> None:
    """Register every environment of `karotte_gym.envs`; again and again is harmless."""
    for folder in _environment_folders(_shipped_folder()):
        _register(_id_of(folder), f"{SHIPPED}.{folder.name}")


def register_project(path: str | Path) -> list[str]:
    """Register every environment folder below `path` (or below its ``envs/``); returns their Gymnasium ids.

    ConfigError when there is none or a name is taken by another folder.
    """
    if not isinstance(path, (str, os.PathLike)) or not os.fspath(path):
        raise ConfigError(f'a project is named by its folder: register_project("/path/to/project"), not {path!r}')
    root = Path(path).resolve()
    parent = root / "envs" if (root / "envs").is_dir() else root
    folders = list(_environment_folders(parent)) if parent.is_dir() else []
    if not folders and (root / "__init__.py").is_file():
        raise ConfigError(f"{root} is an environment's own folder: give its parent folder {root.parent}")
    if not folders:
        raise ConfigError(f"{parent} holds no environment: a folder with an __init__.py that defines a Task")
    return [_register(_id_of(folder), str(folder)) for folder in folders]


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
    asked = reference.removeprefix(NAMESPACE + "/")
    task = _load_reference(known.get(asked, reference), known)
    if asked in known and task.id != asked:
        raise ConfigError(f"the folder {task.folder()} is named for {asked!r}, but its Task has the id {task.id!r}")
    return task


def _load_reference(reference: str, known: dict[str, str]) -> type[Task]:
    if reference.startswith("/"):
        return _only_task(_load_folder(Path(reference)), reference)
    name, _, wanted = reference.partition(":")
    if "/" in name or not ("." in name or wanted):
        raise ConfigError(f"no task {reference!r}; there are: {', '.join(known) or 'none'}")
    return _only_task(_load_module(name), reference, wanted)


def _register(task_id: str, reference: str) -> str:
    env_id = f"{NAMESPACE}/{task_id}"
    there = gymnasium.registry.get(env_id)
    if there is not None and there.kwargs.get("task") != reference:
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


def _shipped_folder() -> Path:
    spec = importlib.util.find_spec(SHIPPED)
    if spec is None or not spec.submodule_search_locations:
        raise ConfigError(f"the package {SHIPPED} is not installed; install karotte-gym again")
    return Path(next(iter(spec.submodule_search_locations)))


def _environment_folders(parent: Path) -> Iterator[Path]:
    for folder in sorted(parent.iterdir()):
        if not folder.name.startswith(("_", ".")) and (folder / "__init__.py").is_file():
            yield folder


def _id_of(folder: Path) -> str:
    return folder.name.replace("_", "-")


def _load_module(name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not (name + ".").startswith(error.name + "."):
            raise ConfigError(f"task module {name} does not load: {error}") from error
        raise ConfigError(f"there is no task module {name}") from error


def _load_folder(folder: Path) -> ModuleType:
    """Import a folder as a package under a name of its own, so that two projects may both have a `my_task`."""
    entry = folder / "__init__.py"
    name = f"_karotte_env_{hashlib.sha256(str(folder).encode()).hexdigest()[:12]}_{folder.name}"
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, entry, submodule_search_locations=[str(folder)])
    if not entry.is_file() or spec is None or spec.loader is None:
        raise ConfigError(f"{folder} is no environment: it has no __init__.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        del sys.modules[name]
        raise ConfigError(f"{entry} does not load: {type(error).__name__}: {error}") from error
    return module


def _only_task(module: ModuleType, reference: str, wanted: str = "") -> type[Task]:
    classes = [
        value
        for value in vars(module).values()
        if inspect.isclass(value) and issubclass(value, Task) and value.__module__.startswith(module.__name__)
    ]
    if wanted:
        classes = [task for task in classes if task.__name__ == wanted]
    tasks = [task for task in classes if "id" in vars(task)]
    if classes and not tasks:
        raise ConfigError(f"{reference}: class {classes[0].__name__} has no id: write id = {_id_for(module)}")
    if len(tasks) != 1:
        form = "" if reference.startswith("/") else f": {module.__name__}:Class"
        raise ConfigError(f"{reference} names {len(tasks)} Task classes; it must name one{form}")
    return tasks[0]


def _id_for(module: ModuleType) -> str:
    """The id that fits the module's place, in quotes."""
    file = Path(module.__file__ or "my_task.py")
    return f'"{_id_of(file.parent if file.name == "__init__.py" else file.with_suffix(""))}"'
