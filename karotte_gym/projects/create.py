"""`create_project` and `create_task`: a template that ships, filled in by Copier. Needs neither git nor a network."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from pathlib import Path

from karotte_gym.errors import ConfigError
from karotte_gym.projects.history import PROJECT_HISTORY, TASK_HISTORY, newest
from karotte_gym.projects.names import check_new_task, class_name_of, example_id_of, folder_name_of, project_name_of

__all__ = ["ANSWERS_FILE", "create_project", "create_task", "example_id_of", "find_project"]

ANSWERS_FILE = ".copier-answers.yml"  # Copier's name for it
MAX_SHOWN_CHARS = 300  # of a path that can't be made


def create_project(target: Path, name: str | None = None) -> str:
    """A whole project in the folder `target`, which is new or empty, with one example task; returns its name."""
    target = target.absolute()
    _check_empty(target)
    project_name = project_name_of(target, name)
    check_new_task(example_id_of(project_name), target / "envs")
    _render(newest(PROJECT_HISTORY), target, {"project_name": project_name, "package": folder_name_of(project_name)})
    create_task(example_id_of(project_name), target)
    return project_name


def create_task(task_id: str, project: Path) -> Path:
    """A small whole task in the project's ``envs/``, to be edited; returns its folder."""
    envs = find_project(project) / "envs"
    check_new_task(task_id, envs)
    folder = envs / folder_name_of(task_id)
    _render(newest(TASK_HISTORY), folder, {"task_id": task_id, "class_name": class_name_of(task_id)})
    return folder


def find_project(start: Path) -> Path:
    """The project's folder at or above `start`: it has ``envs/`` and the answers that it was made with."""
    start = start.absolute()
    for folder in (start, *start.parents):
        if (folder / "envs").is_dir() and (folder / ANSWERS_FILE).is_file():
            return folder
    raise ConfigError(f"{start} is in no project: go into one or name it with --project; create-env makes one")


def _check_empty(target: Path) -> None:
    """A folder with nothing but ``.git`` is empty: a repository made beforehand."""
    try:
        there = _names_in(target)
    except (OSError, ValueError) as error:  # a name that is too long, a folder that may not be read, a NUL
        said = error.strerror if isinstance(error, OSError) else error
        raise ConfigError(f"{str(target)[:MAX_SHOWN_CHARS]!r} can't be made: {said}; give the name of a new folder") from error
    if there:
        raise ConfigError(f"{target} is not empty (it holds {there[0]}); give the name of a new folder")


def _names_in(target: Path) -> list[str]:
    for folder in (target, *target.parents):
        if folder.exists() and not folder.is_dir():
            raise ConfigError(f"{folder} is no folder; give the name of a new one")
    return sorted(path.name for path in target.iterdir() if path.name != ".git") if target.exists() else []


def _render(template: Path, target: Path, answers: Mapping[str, str]) -> None:
    from copier import run_copy  # here, because it takes half a second to load
    from copier.errors import CleanupWarning, CopierError

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", CleanupWarning)  # it says where it could not clean up, before we say why
            run_copy(str(template), target, data=dict(answers), defaults=True, quiet=True)
    except (CopierError, OSError) as error:
        raise ConfigError(f"{target} can't be written: {error}") from error
