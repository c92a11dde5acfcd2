"""``karotte-gym validate TASK``: proves a task sound, or says line by line what is wrong and how to mend it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from karotte_gym.cli.progress import stages
from karotte_gym.cli.projects import Projects, register_all
from karotte_gym.errors import ConfigError
from karotte_gym.registration import load_task
from karotte_gym.validate.catalogue import chosen
from karotte_gym.validate.report import as_json, as_table, is_sound, summary
from karotte_gym.validate.run import validate as run_checks

__all__ = ["validate"]


def validate(
    task: Annotated[str, typer.Argument(help="Task id, as in `tasks list`.")],
    workers: Annotated[int, typer.Option("-n", "--workers", min=1, help="Episodes at a time, if they fit.")] = 2,
    as_json_text: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
    quick: Annotated[bool, typer.Option("--quick", help="Fewer broken submissions, without the generic attacks.")] = False,
    only: Annotated[list[str] | None, typer.Option("--only", help="Only the check of this id; repeatable.")] = None,
    config: Annotated[str, typer.Option("--config", help="The task's configuration, as a JSON object.")] = "{}",
    project: Projects = None,
) -> None:
    """Exit code 1 if any check fails; warnings and what could not be checked are for you to judge."""
    settings = _settings(config)
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


def _settings(text: str) -> Mapping[str, Any]:
    try:
        value = json.loads(text)
    except ValueError as error:
        raise ConfigError(f"--config is no JSON: {error}") from error
    if not isinstance(value, dict):
        raise ConfigError(f"--config must be a JSON object such as '{{\"generated\": true}}', not {text!r}")
    return value


@contextmanager
def _bar(total: int) -> Iterator[Any]:
    """On standard error; gone when done. Counts checks, and names what the current one has done last."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        bar = progress.add_task("checks", total=total)
        done = {"checks": -1, "things": 0}

        def tell(check: str, what: str) -> None:
            done["checks"] += what == ""
            done["things"] = done["things"] + 1 if what else 0
            doing = f"{check}: {what} {done['things']}" if what else check
            progress.update(bar, completed=done["checks"], description=doing)

        yield tell
