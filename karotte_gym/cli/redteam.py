"""``karotte-gym redteam TASK``: the generic pack and the environment's own attacks, or a pack from a file."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from karotte_gym.cli.progress import counted, stages
from karotte_gym.cli.projects import Projects, register_all
from karotte_gym.errors import ConfigError
from karotte_gym.redteam.pack import Attack, generic_pack, load_pack, own_attacks
from karotte_gym.redteam.report import as_json, as_junit, as_table
from karotte_gym.redteam.runner import run_attacks
from karotte_gym.redteam.verdict import Outcome
from karotte_gym.registration import load_task

__all__ = ["redteam"]


def redteam(
    task: Annotated[str, typer.Argument(help="Task id, as in `tasks list`.")],
    parallel: Annotated[int, typer.Option("-p", "--parallel", "-n", min=1, help="Episodes at a time.")] = 2,
    as_json_text: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
    junit: Annotated[Path | None, typer.Option("--junit", help="Write a JUnit file for CI.")] = None,
    pack: Annotated[Path | None, typer.Option("--pack", help="Play this pack instead of the shipped one.")] = None,
    only: Annotated[str, typer.Option("--only", help="Only attacks whose name contains this.")] = "",
    cgroups: Annotated[bool, typer.Option(help="Machines with or without control groups.")] = True,
    project: Projects = None,
) -> None:
    """Exit code 1 if any attack earns reward, leaks, hangs, or is punished although legal."""
    register_all(project)
    task_class = load_task(task)
    attacks = [*generic_pack(), *own_attacks(task_class)] if pack is None else load_pack(pack)
    attacks = [attack for attack in attacks if only in attack.name]
    if not attacks:
        raise ConfigError(f"no attack has {only!r} in its name")
    if junit is not None:
        _check_writable(junit)
    with stages() as progress:
        task_class.prepare(progress, use_cgroups=cgroups)
    outcomes = _run(task_class.id, attacks, parallel, {} if cgroups else {"use_cgroups": False})
    if junit is not None:
        junit.write_bytes(as_junit(task_class.id, outcomes))
    if as_json_text:
        typer.echo(json.dumps(as_json(outcomes), indent=1))
    else:
        console = Console(highlight=False)
        console.print(as_table(outcomes))
        failed = sum(bool(outcome.failures) for outcome in outcomes)
        console.print(f"{len(outcomes)} attacks, {failed} did not end as they must")
    raise typer.Exit(1 if any(outcome.failures for outcome in outcomes) else 0)


def _check_writable(path: Path) -> None:
    """Before anything is played: opening the file is the only proof that it can be written."""
    new = not path.exists()
    try:
        path.open("ab").close()
        if new:
            path.unlink()
    except OSError as error:
        raise ConfigError(f"--junit {path} can't be written: {error.strerror}") from error


def _run(task_id: str, attacks: list[Attack], parallel: int, env_kwargs: dict[str, bool]) -> list[Outcome]:
    done = itertools.count(1)
    with counted("attacks", len(attacks)) as tell:

        def advance(outcome: Outcome) -> None:
            tell(next(done), f"{outcome.attack.name}: {'FAILED' if outcome.failures else 'held'}")

        return run_attacks(task_id, attacks, parallel=parallel, env_kwargs=env_kwargs, on_outcome=advance)
