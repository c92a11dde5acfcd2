"""Loads the Task class that a reference names; what does not load is named with its file.

The references are those of `karotte_gym.registration`, by which everybody else asks.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import inspect
import sys
from pathlib import Path
from types import ModuleType

from karotte_gym.entry_points import find_module
from karotte_gym.errors import ConfigError
from karotte_gym.task import Task

__all__ = ["file_of_module", "id_of", "load_reference"]


def load_reference(reference: str) -> type[Task]:
    """The one Task of a folder (an absolute path) or of a module; ``module:Class`` names one of several."""
    if reference.startswith("/"):
        return _only_task(_load_folder(Path(reference)), reference)
    name, _, wanted = reference.partition(":")
    return _only_task(_load_module(name), reference, wanted)


def id_of(folder: Path) -> str:
    """The task id that a folder is named for."""
    return folder.name.replace("_", "-")


def file_of_module(name: str) -> Path | None:
    """Its file, found without importing anything; None when there is no such module or it has no file."""
    spec = find_module(name)
    return Path(spec.origin).resolve() if spec is not None and spec.origin is not None else None


def _load_module(name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except (Exception, SystemExit) as error:  # a module that exits must not take the trainer, or the list of tasks, with it
        missing = error.name if isinstance(error, ModuleNotFoundError) else None
        if missing is not None and (name + ".").startswith(missing + "."):
            raise ConfigError(f"there is no task module {name}") from error
        raise ConfigError(_does_not_load(file_of_module(name) or name, error)) from error


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
    except BaseException as error:
        _forget(name)
        if isinstance(error, (Exception, SystemExit)):
            raise ConfigError(_does_not_load(entry, error)) from error
        raise
    return module


def _forget(name: str) -> None:
    """Also the modules in it that did load: the next attempt must not meet what the last one left."""
    for each in [each for each in sys.modules if each == name or each.startswith(f"{name}.")]:
        del sys.modules[each]


def _does_not_load(place: Path | str, error: BaseException) -> str:
    said = f"{type(error).__name__}: {error}".removesuffix(": ")  # SystemExit has often nothing to say
    return f"{place} does not load: {said}"


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
    return f'"{id_of(file.parent if file.name == "__init__.py" else file.with_suffix(""))}"'
