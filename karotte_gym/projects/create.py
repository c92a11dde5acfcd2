"""`create_project` and `create_task`: a template that ships, filled in by Copier. Needs neither git nor a network."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from karotte_gym.errors import ConfigError
from karotte_gym.projects.history import PROJECT_HISTORY, TASK_HISTORY, newest
from karotte_gym.projects.names import check_new_task, class_name_of, folder_name_of, project_name_of

__all__ = ["ANSWERS_FILE", "create_project", "create_task", "example_id_of", "find_project"]

ANSWERS_FILE = ".copier-answers.yml"  # Copier's name for it


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


def example_id_of(project_name: str) -> str:
    """The example's id: two installed projects must not both bring an ``example``."""
    return f"{project_name}-example"


def find_project(start: Path) -> Path:
    """The project's folder at or above `start`: it has ``envs/`` and the answers that it was made with."""
    start = start.absolute()
    for folder in (start, *start.parents):
        if (folder / "envs").is_dir() and (folder / ANSWERS_FILE).is_file():
            return folder
    raise ConfigError(f"{start} is in no project: go into one or name it with --project; create-env makes one")


def _check_empty(target: Path) -> None:
    """A folder with nothing but ``.git`` is empty: a repository made beforehand."""
    if not target.exists():
        return
    if not target.is_dir():
        raise ConfigError(f"{target} is no folder; give the name of a new one")
    there = sorted(path.name for path in target.iterdir() if path.name != ".git")
    if there:
        raise ConfigError(f"{target} is not empty (it holds {there[0]}); give the name of a new folder")


def _render(template: Path, target: Path, answers: Mapping[str, str]) -> None:
    from copier import run_copy  # here, because it takes half a second to load
    from copier.errors import CopierError

    try:
        run_copy(str(template), target, data=dict(answers), defaults=True, quiet=True)
    except (CopierError, OSError) as error:
        raise ConfigError(f"{target} can't be written: {error}") from error
