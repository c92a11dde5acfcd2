"""``karotte-gym validate TASK``: proves a task sound, or says line by line what is wrong and how to mend it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any

import typer
from rich.console import Console

from karotte_gym.cli.progress import counted, stages
from karotte_gym.cli.projects import Projects, register_all
from karotte_gym.cli.task_config import TaskConfigTextOrConfig, read_task_config
from karotte_gym.registration import load_task
from karotte_gym.validate.catalogue import chosen
from karotte_gym.validate.report import as_json, as_table, is_sound, summary
from karotte_gym.validate.run import validate as run_checks

__all__ = ["validate"]


def validate(
    task: Annotated[str, typer.Argument(help="Task id, as in `tasks list`.")],
    workers: Annotated[
        int, typer.Option("-p", "--parallel", "--workers", "-n", min=1, help="Episodes at a time, if they fit.")
    ] = 2,
    as_json_text: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
    quick: Annotated[bool, typer.Option("--quick", help="Fewer broken submissions, without the generic attacks.")] = False,
    only: Annotated[list[str] | None, typer.Option("--only", help="Only the check of this id; repeatable.")] = None,
    task_config: TaskConfigTextOrConfig = None,
    project: Projects = None,
) -> None:
    """Exit code 1 if any check fails; warnings and what could not be checked are for you to judge."""
    settings = read_task_config(task_config)
    register_all(project)
    checks = chosen(tuple(only or ()), quick=quick)
    task_class = load_task(task)
    task_class(settings)
    if any(check.cost != "read" for check in checks):
        with stages(False if as_json_text else None) as progress:
            task_class.prepare(progress)
    with _bar(len(checks)) as tell:
        findings = run_checks(task_class, only=only or (), workers=workers, quick=quick, config=settings, tell=tell)
    if as_json_text:
        typer.echo(json.dumps(as_json(task_class.id, findings), indent=1))
    else:
        Console(highlight=False).print(as_table(task_class.id, findings))
        typer.echo(summary(task_class.id, findings))
    raise typer.Exit(0 if is_sound(findings) else 1)


@contextmanager
def _bar(total: int) -> Iterator[Any]:
    """On standard error. Counts checks, and names what the current one has done last."""
    with counted("checks", total) as show:
        done = {"checks": -1, "things": 0}

        def tell(check: str, what: str) -> None:
            done["checks"] += what == ""
            done["things"] = done["things"] + 1 if what else 0
            show(done["checks"], f"{check}: {what} {done['things']}" if what else check)

        yield tell
