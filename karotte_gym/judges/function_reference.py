"""Names a function so that a process of its own can load it: by its module and file, as text.

It is loaded afresh there and not forked: a trainer has threads that hold locks and maps gigabytes that no limit on
memory would leave room for, so a fork of it hangs, or can't be bounded, for reasons that are no submission's.
"""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import operator
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from karotte_gym.errors import ConfigError

__all__ = ["FunctionReference"]

MAIN = "__main__"
MAIN_AGAIN = "__karotte_main__"  # a script that guards its start by `if __name__ == "__main__"` does not run twice


@dataclass(frozen=True, slots=True)
class FunctionReference:
    """A function at the top of a module or a class. `root` is the first part of the module's name."""

    module: str
    name: str
    file: str
    root_file: str  # "" when the root is a plain directory, which has no file

    @classmethod
    def of(cls, function: Callable[..., Any]) -> FunctionReference:
        """ConfigError when no other process could find it."""
        name = getattr(function, "__qualname__", "")
        if not inspect.isfunction(function) or "<" in name:
            raise ConfigError(
                f"FunctionJudge takes a function written with def at the top of a file, not {function!r}: "
                "a process of its own has to find it by its name"
            )
        file = inspect.getsourcefile(function)
        if file is None or not Path(file).is_file():
            raise ConfigError(f"FunctionJudge has to load {name} from a file, and there is none: write it into one")
        root = sys.modules.get(function.__module__.partition(".")[0])
        return cls(function.__module__, name, str(Path(file).resolve()), getattr(root, "__file__", None) or "")

    def load(self) -> Callable[..., Any]:
        """The function, in the process that calls it; whatever importing its module raises."""
        function = operator.attrgetter(self.name)(self._module())
        if not callable(function):
            raise TypeError(f"{self.name} of {self.file} is no function any more")
        return function

    def _module(self) -> ModuleType:
        if self.module == MAIN:
            return _from_file(MAIN_AGAIN, self.file)
        root = self.module.partition(".")[0]
        if self.root_file and not _imports(root, self.root_file):
            _from_file(root, self.root_file)  # an environment's folder, which has a name but is on no path
        return importlib.import_module(self.module)


def _imports(name: str, file: str) -> bool:
    """Whether importing `name` would give that file."""
    spec = importlib.util.find_spec(name)
    return spec is not None and spec.origin is not None and Path(spec.origin).resolve() == Path(file).resolve()


def _from_file(name: str, file: str) -> ModuleType:
    folder = [str(Path(file).parent)] if Path(file).name == "__init__.py" else None
    spec = importlib.util.spec_from_file_location(name, file, submodule_search_locations=folder)
    if spec is None or spec.loader is None:
        raise ImportError(f"{file} is no Python module")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module
