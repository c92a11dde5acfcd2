"""``karotte-gym models``: what is known about models, from data alone; nothing is asked over the network."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from karotte_gym.models.catalogue import ModelInfo, catalogue, known_models, model_info

__all__ = ["app"]

_UNBROKEN_COLUMNS = 160

app = typer.Typer(no_args_is_help=True, add_completion=False, help="Models that can play the student.")


@app.callback()
def _group() -> None:
    """Keeps `list` a command of its own."""


@app.command("list")
def list_models(
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
    every: Annotated[bool, typer.Option("--all", help="Every chat model with tools that litellm knows, too.")] = False,
) -> None:
    """Known models, and the prefixes that take any model. Other names run with safe defaults."""
    models, prefixes = known_models(every), catalogue().prefixes
    if as_json:
        listed = [_plain(model) for model in models]
        typer.echo(json.dumps({"models": listed, "prefixes": [each.model_dump() for each in prefixes]}, indent=1))
        return
    console = Console(highlight=False)
    if not console.is_terminal:
        console.width = _UNBROKEN_COLUMNS  # a pipe has no width to fit into
    console.print(_table(models))
    console.print(Text("\nPrefixes that take any model:"))
    for each in prefixes:
        console.print(Text(f"  {each.prefix:<14} {each.note}".rstrip()))


@app.command("show")
def show_model(name: Annotated[str, typer.Argument(help="litellm's name, e.g. anthropic/claude-sonnet-5.")]) -> None:
    """Everything known about one model, as JSON."""
    typer.echo(json.dumps(_plain(model_info(name)), indent=1))


def _plain(model: ModelInfo) -> dict[str, Any]:
    return model.model_dump(mode="json")


def _table(models: list[ModelInfo]) -> Table:
    table = Table(box=None, pad_edge=False)
    for name in ("model", "output", "context", "$/M in", "$/M out", "reasoning", "sends back"):
        text = name in ("model", "reasoning", "sends back")
        table.add_column(name, justify="left" if text else "right", no_wrap=name != "reasoning", overflow="fold")
    for model in models:
        table.add_row(
            Text(model.name),
            _number(model.max_output_tokens),
            _number(model.context_tokens),
            _number(model.input_usd_per_million),
            _number(model.output_usd_per_million),
            Text("/".join(model.levels) or "-"),
            Text(model.talk.send_back),
        )
    return table


def _number(value: float | None) -> str:
    return "?" if value is None else f"{value:g}" if isinstance(value, float) else str(value)
