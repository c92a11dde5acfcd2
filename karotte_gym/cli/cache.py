"""``karotte-gym cache``: what the cache holds, and keeping it small."""

from __future__ import annotations

import time
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from karotte_gym.errors import ConfigError

__all__ = ["app"]

app = typer.Typer(help="Images and snapshots on this host.", no_args_is_help=True)


@app.command("list")
def list_cache(
    check: Annotated[bool, typer.Option("--verify", help="read all of it and name what is damaged")] = False,
) -> None:
    """List what the cache holds, least recently used first."""
    from karotte_gym.sandbox import cache

    damaged = []
    table = Table("kind", "key", "stored", "last used", "")
    for entry in cache.list_entries():
        stamp = time.strftime("%Y-%m-%d %H:%M", time.localtime(entry.last_used_s))
        if check:
            damaged += cache.verify(entry.path)
        table.add_row(entry.kind, entry.key[:16], _text(entry.size_bytes), stamp, "in use" if entry.in_use else "")
    Console().print(table)
    for sentence in damaged:
        typer.echo(sentence, err=True)
    if damaged:
        raise typer.Exit(1)


@app.command()
def prune(
    to: Annotated[str | None, typer.Option(help="keep at most so much, e.g. 5G; left out: what the cap says")] = None,
    everything: Annotated[bool, typer.Option("--all", help="remove all that is not in use")] = False,
    kind: Annotated[list[str] | None, typer.Option(help="only this kind; may be repeated")] = None,
) -> None:
    """Remove what was not used for longest. What a living machine uses stays."""
    from karotte_gym.sandbox import cache_prune
    from karotte_gym.sandbox.cache import KINDS

    if to is not None and everything:
        raise ConfigError("--to and --all exclude each other")
    if unknown := set(kind or ()) - set(KINDS):
        raise ConfigError(f"no such kind: {', '.join(sorted(unknown))}; there are {', '.join(KINDS)}")
    limit = 0 if everything else cache_prune.parse_size(to) if to else cache_prune.cap_bytes()
    gone = cache_prune.prune(limit, kinds=tuple(kind or KINDS))
    typer.echo(f"removed {len(gone)} entries, {_text(sum(entry.size_bytes for entry in gone))}")


@app.command()
def size() -> None:
    """Print how much the cache stores, and its cap."""
    from karotte_gym.sandbox import cache, cache_prune

    stored = sum(entry.size_bytes for entry in cache.list_entries())
    typer.echo(f"{_text(stored)} of at most {_text(cache_prune.cap_bytes())} in {cache.cache_root()}")


@app.command()
def cap(
    size: Annotated[str | None, typer.Argument(help="new cap, e.g. 20G; left out: print the present one")] = None,
) -> None:
    """Print or set how much the cache may store before it prunes itself after a build."""
    from karotte_gym.sandbox import cache_prune

    if size is not None:
        cache_prune.set_cap(cache_prune.parse_size(size))
        cache_prune.enforce_cap()
    typer.echo(_text(cache_prune.cap_bytes()))


def _text(size_bytes: int) -> str:
    return f"{size_bytes / 1024**3:.1f} GiB" if size_bytes >= 1024**3 else f"{size_bytes / 1024**2:.1f} MiB"
