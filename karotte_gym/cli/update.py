"""``karotte-gym update``: the newest template, merged with the edits of a project."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from karotte_gym.projects.update import update_project

__all__ = ["update"]


def update(project: Annotated[Path, typer.Option(help="Somewhere in the project.")] = Path()) -> None:
    """Merge the newest template into the project that you are in, which must be committed to git.

    Exit code 1 when your edits and the template's contradict each other.
    """
    done = update_project(project)
    if done.before == done.after:
        typer.echo(f"The template is the newest already: {done.after}.")
        return
    typer.echo(f"The template went from {done.before} to {done.after}; look at it with git diff. Changed:")
    for path in done.changed:
        typer.echo(f"  {path}")
    if done.conflicts:
        typer.echo(
            f"karotte-gym: your edits and the template's contradict each other in {', '.join(done.conflicts)}: "
            "choose between the marked lines, then git add and git commit",
            err=True,
        )
        raise typer.Exit(1)
    typer.echo("Your edits are kept. Try it, then git add and git commit.")
