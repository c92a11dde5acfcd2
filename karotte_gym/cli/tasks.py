"""``karotte-gym tasks list``."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from karotte_gym.cli.projects import Projects, register_all
from karotte_gym.errors import ConfigError
from karotte_gym.registration import load_task, registered_tasks, registration_problems
from karotte_gym.task import Task

__all__ = ["app"]

app = typer.Typer(no_args_is_help=True, add_completion=False, help="The tasks there are.")


@app.callback()
def _group() -> None:
    """Keeps `list` a command of its own."""


@app.command("list")
def list_tasks(
    project: Projects = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON list.")] = False,
) -> None:
    """Every registered task, with its steps and tools. Exit code 1 when one does not load."""
    register_all(project)
    found, broken = _load_all()
    if as_json:
        rows = [
            {"id": task_id, "steps": len(task.steps), "tools": [*task.tools, "submit"], "from": reference}
            for task_id, task, reference in found
        ]
        typer.echo(json.dumps(rows, indent=1))
    else:
        for task_id, task, _ in found:
            steps = "1 step" if len(task.steps) == 1 else f"{len(task.steps)} steps"
            typer.echo(f"karotte/{task_id:<24} {steps:<10} {', '.join([*task.tools, 'submit'])}")
    for sentence in broken:
        typer.echo(f"karotte-gym: {sentence}", err=True)
    raise typer.Exit(1 if broken else 0)


def _load_all() -> tuple[list[tuple[str, type[Task], str]], list[str]]:
    """What loads, and a sentence for each that does not: somebody else's broken task hides none of the others."""
    found, broken = [], registration_problems()
    for task_id, reference in registered_tasks().items():
        try:
            found.append((task_id, load_task(task_id), reference))
        except ConfigError as error:
            broken.append(str(error))
    return found, list(dict.fromkeys(broken))
