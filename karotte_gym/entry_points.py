"""Environments of installed projects: the entry points of the group ``karotte_gym.envs``, found without importing any.

The value of an entry point is a package whose folder holds environment folders, or one environment, ``package.module``
or ``package.module:Class``; the entry point's name is then the task's id. Only metadata and names of folders are read,
because this runs at ``import karotte_gym``. What is broken in somebody else's distribution becomes a sentence in
`Installed.problems` and breaks nothing of ours.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from importlib.machinery import ModuleSpec
from importlib.metadata import Distribution, EntryPoint, distributions
from pathlib import Path

__all__ = [
    "GROUP",
    "PARTS_OF_AN_ENVIRONMENT",
    "Declared",
    "Installed",
    "environment_folders",
    "find_installed",
    "find_module",
]

GROUP = "karotte_gym.envs"
# Folders inside an environment, which are never environments of their own even when they are packages.
PARTS_OF_AN_ENVIRONMENT = frozenset({"tools", "attacks", "student_data", "shared_data", "root_data"})
_VALUE = re.compile(r"(?P<module>\w+(\.\w+)*)(:\w+)?")


@dataclass(frozen=True, slots=True)
class Declared:
    """One environment that a distribution brings; `origin` names the distribution and its entry point."""

    task_id: str
    reference: str
    origin: str


@dataclass(slots=True)
class Installed:
    """All of them, and what could not be read, a sentence each."""

    declared: list[Declared] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)


def find_installed() -> Installed:
    """Reads the metadata of every distribution on `sys.path`; the first of a name hides others, as it does for imports."""
    found = Installed()
    seen: set[str] = set()
    for distribution in distributions():
        try:
            _read(distribution, seen, found)
        except Exception as error:  # whatever is wrong with it is its own doing, and must not stop the import
            where = distribution.locate_file("")
            found.problems.append(f"a distribution in {where} can't be read: {type(error).__name__}: {error}")
    return found


def find_module(name: str) -> ModuleSpec | None:
    """Where a module is, without importing it or its parents (`importlib.util.find_spec` imports those)."""
    path = None
    spec: ModuleSpec | None = None
    parts = name.split(".")
    for count in range(1, len(parts) + 1):
        spec = _ask_finders(".".join(parts[:count]), path)
        path = None if spec is None else spec.submodule_search_locations
        if spec is None or (path is None and count < len(parts)):
            return None
    return spec


def environment_folders(parent: Path) -> Iterator[Path]:
    """The folders in `parent` that hold an environment, sorted."""
    for folder in sorted(parent.iterdir()):
        ours = not folder.name.startswith(("_", ".")) and folder.name not in PARTS_OF_AN_ENVIRONMENT
        if ours and (folder / "__init__.py").is_file():
            yield folder


def _read(distribution: Distribution, seen: set[str], found: Installed) -> None:
    if GROUP not in (distribution.read_text("entry_points.txt") or ""):
        return
    name = str(distribution.metadata["Name"])
    if name in seen:
        return
    seen.add(name)
    for entry in distribution.entry_points:
        if entry.group == GROUP:
            _read_entry(entry, f"{name} (entry point {entry.name!r})", found)


def _read_entry(entry: EntryPoint, origin: str, found: Installed) -> None:
    match = _VALUE.fullmatch(entry.value)
    if match is None:
        found.problems.append(f'{origin}: {entry.value!r} must be like "my_tasks" or "my_tasks.one:OneTask"')
        return
    spec = find_module(match["module"])
    folders = []
    if spec is not None and entry.value == match["module"]:
        for location in spec.submodule_search_locations or ():
            folders += list(environment_folders(Path(location)))
    for folder in folders:
        found.declared.append(Declared(folder.name.replace("_", "-"), f"{entry.value}.{folder.name}", origin))
    if not folders:  # one environment, or a module that is missing, which loading it will say
        found.declared.append(Declared(entry.name, entry.value, origin))


def _ask_finders(name: str, path: list[str] | None) -> ModuleSpec | None:
    for finder in sys.meta_path:
        spec = finder.find_spec(name, path)
        if spec is not None:
            return spec
    return None
