"""``karotte-gym create-task ID``: another task in a project."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from karotte_gym.projects.create import create_task as create

__all__ = ["create_task"]


def create_task(
    task_id: Annotated[str, typer.Argument(metavar="ID", help="Such as my-task.")],
    project: Annotated[Path, typer.Option(help="Somewhere in the project.")] = Path(),
) -> None:
    """Add a small whole task to the project that you are in, to be made yours."""
    folder = create(task_id, project)
    typer.echo(f"The task {task_id} is in {folder}. Edit it, then: karotte-gym validate {task_id}")
