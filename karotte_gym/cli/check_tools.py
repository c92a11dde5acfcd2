"""``karotte-gym check tools TASK``: every mistake in an author's own tools, with its file and line."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Annotated

import typer

from karotte_gym.cli.projects import Projects, register_all
from karotte_gym.registration import load_task

__all__ = ["tools"]


def tools(
    task: Annotated[str, typer.Argument(help="Task id, as in `tasks list`.")],
    as_json: Annotated[bool, typer.Option("--json", help="print one JSON object and nothing else")] = False,
    project: Projects = None,
) -> None:
    """Check a task's tools; exit code 1 on any error, 0 when there are only warnings. Starts no machine."""
    from karotte_gym.tools.check import check_tools

    register_all(project)
    task_class = load_task(task)
    found = check_tools(task_class)
    sound = all(one.level != "error" for one in found)
    if as_json:
        typer.echo(json.dumps({"task": task_class.id, "ok": sound, "findings": [asdict(one) for one in found]}, indent=1))
    else:
        for one in found:
            typer.echo(f"{one.level}: {one.place}{': ' if one.place else ''}{one.sentence}")
        count = len({*task_class.tools, "submit"})
        typer.echo(f"{task_class.id}: {count} tools, {f'{len(found)} found' if found else 'nothing found'}")
    raise typer.Exit(0 if sound else 1)
