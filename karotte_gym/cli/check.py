"""``karotte-gym check``: a task, an image before students get it, what a live machine confines. Exit code 1: unfit."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.table import Table

from karotte_gym.cli.check_tools import tools
from karotte_gym.cli.validate import validate

if TYPE_CHECKING:
    from karotte_gym.sandbox.check_image import Finding
    from karotte_gym.sandbox.contract import Contract

__all__ = ["app"]

app = typer.Typer(help="Check a task, an image, or what a live machine confines.", no_args_is_help=True)

Json = Annotated[bool, typer.Option("--json", help="print one JSON object and nothing else")]


@app.callback()
def _group() -> None:
    """Makes the app a group, however many commands it has."""


app.command()(tools)
app.command("task")(validate)  # the same command under both names: `validate` is what one looks for first


@app.command()
def image(
    base: Annotated[str | None, typer.Option(help="container image it was built on; left out: Debian")] = None,
    as_json: Json = False,
) -> None:
    """Probe the image in a machine of its own; exit code 1 when any probe finds something."""
    from karotte_gym.cli.progress import stages
    from karotte_gym.sandbox.check_image import check_image
    from karotte_gym.sandbox.image import build_image

    with stages(False if as_json else None) as report:
        built = build_image(base, report)
        found = check_image(built, base, report)
    if as_json:
        findings = [asdict(one) for one in found]
        typer.echo(json.dumps({"image": built.id, "ok": all(one.ok for one in found), "findings": findings}, indent=1))
    else:
        _print_findings(found, f"image {built.id}")
    raise typer.Exit(0 if all(one.ok for one in found) else 1)


@app.command()
def confinement(
    as_json: Json = False,
    no_cgroups: Annotated[bool, typer.Option("--no-cgroups", help="a machine whose agent uses no control groups")] = False,
) -> None:
    """Measure a live machine; exit code 1 when it gives less than it should."""
    from karotte_gym.cli.progress import stages
    from karotte_gym.sandbox.check_confinement import check_confinement

    with stages(False if as_json else None) as report:
        measured = check_confinement(use_cgroups=not no_cgroups, progress=report)
    if as_json:
        typer.echo(json.dumps({"ok": not measured.wrong, **asdict(measured)}, indent=1))
    else:
        _print_contracts(measured.contracts)
        _print_findings(measured.findings, f"confinement of {measured.runtime}")
        for sentence in measured.wrong:
            typer.echo(f"less than it should be: {sentence}")
    raise typer.Exit(1 if measured.wrong else 0)


def _print_findings(found: Sequence[Finding], subject: str) -> None:
    wrong = [one for one in found if not one.ok]
    if wrong:
        table = Table("probe", "finding", "fix")
        for one in wrong:
            table.add_row(one.name, one.finding, one.fix)
        Console(markup=False).print(table)
    probes = len({one.name for one in found})
    typer.echo(f"{subject}: {probes} probes, {len(wrong)} finding{'' if len(wrong) == 1 else 's'}")


def _print_contracts(contracts: Sequence[Contract]) -> None:
    table = Table("resource", "enforcement", "limit", "evidence")
    for contract in contracts:
        limit = "" if contract.limit is None else f"{contract.limit:,}"
        table.add_row(contract.resource, contract.enforcement, limit, contract.evidence)
    Console(markup=False).print(table)
