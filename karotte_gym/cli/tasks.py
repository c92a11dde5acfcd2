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
    rows = []
    for task_id, reference in registered_tasks().items():
        task = load_task(task_id)
        rows.append({"id": task_id, "steps": len(task.steps), "tools": [*task.tools, "submit"], "from": reference})
    if as_json:
        typer.echo(json.dumps(rows, indent=1))
        return
    for row in rows:
        typer.echo(f"karotte/{row['id']:<24} {row['steps']} step(s)  {', '.join(map(str, row['tools']))}")
