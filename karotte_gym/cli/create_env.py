"""``karotte-gym create-env DIR``: a whole project of one's own."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import typer

from karotte_gym.projects.create import create_project, example_id_of

__all__ = ["create_env"]


def create_env(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="A new or empty folder.")],
    name: Annotated[str | None, typer.Option(help="Of the project; left out: the folder's.")] = None,
) -> None:
    """Make a project of environments, with one example task, tests and a CI file."""
    project_name = create_project(directory, name)
    typer.echo(f"The project {project_name} is in {directory}, with the task {example_id_of(project_name)}. Next:")
    typer.echo(f"  cd {shlex.quote(str(directory))}")
    typer.echo("  git init && git add --all && git commit --message 'A new project'")
    typer.echo("  python -m pip install --editable '.[test]'")
    typer.echo("  karotte-gym create-task my-task")
