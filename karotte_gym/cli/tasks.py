"""``karotte-gym tasks list``."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from karotte_gym.cli.projects import Projects, register_all
from karotte_gym.registration import load_task, registered_tasks

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
    """Every registered task, with its steps and tools."""
    register_all(project)
    found = [(task_id, load_task(task_id), reference) for task_id, reference in registered_tasks().items()]
    if as_json:
        rows = [
            {"id": task_id, "steps": len(task.steps), "tools": [*task.tools, "submit"], "from": reference}
            for task_id, task, reference in found
        ]
        typer.echo(json.dumps(rows, indent=1))
        return
    for task_id, task, _ in found:
        steps = "1 step" if len(task.steps) == 1 else f"{len(task.steps)} steps"
        typer.echo(f"karotte/{task_id:<24} {steps:<10} {', '.join([*task.tools, 'submit'])}")
