"""``karotte-gym view`` and ``karotte-gym report``: look at runs in a browser."""

from __future__ import annotations

import signal
import threading
from pathlib import Path
from typing import Annotated

import typer

from karotte_gym.report.page import write_report
from karotte_gym.report.server import ViewServer
from karotte_gym.report.store import Store

__all__ = ["report", "view"]

Runs = Annotated[Path, typer.Argument(help="A run directory, or one that holds some.")]


def view(
    directory: Runs,
    port: Annotated[int, typer.Option("--port", min=0, max=65535, help="On 127.0.0.1; 0 takes a free one.")] = 0,
    open_browser: Annotated[bool, typer.Option("--open", help="Open a browser, too.")] = False,
) -> None:
    """Serve DIRECTORY on loopback until Ctrl-C. Runs that are still going can be reloaded."""
    over = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: over.set())
    with ViewServer(Store(directory), port) as server:
        typer.echo(f"{server.url}  (Ctrl-C ends it)")
        if open_browser:
            typer.launch(server.url)
        over.wait()


def report(
    directory: Runs,
    output: Annotated[Path, typer.Option("--output", "-o", help="HTML file to write.")] = Path("report.html"),
) -> None:
    """Write DIRECTORY as one HTML file that needs nothing else."""
    size = write_report(directory, output)
    typer.echo(f"wrote {output} ({size / 1024 / 1024:.1f} MiB)")
