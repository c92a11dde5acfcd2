"""``karotte-gym image``: build, list and find what machines boot from."""

from __future__ import annotations

import time
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from karotte_gym.cli.projects import Projects, register_all

__all__ = ["app"]

app = typer.Typer(help="What machines boot from.", no_args_is_help=True)

Base = Annotated[str | None, typer.Option(help="container image to start from; left out: Debian, made by mmdebstrap")]


@app.command()
def build(
    base: Base = None,
    task: Annotated[str | None, typer.Option(help="a task: build its own images, too, and what its machines need")] = None,
    projects: Projects = None,
    progress: Annotated[bool | None, typer.Option("--progress/--no-progress", help="bars of the stages")] = None,
) -> None:
    """Build the image and check that it is fit for students, or find that nothing changed."""
    from karotte_gym.cli.progress import stages
    from karotte_gym.registration import load_task
    from karotte_gym.sandbox.check_image import refuse_broken_image
    from karotte_gym.sandbox.image import build_image

    started = time.monotonic()
    with stages(progress) as report:
        image = build_image(base, report)
        refuse_broken_image(image, base, report)
        if task is not None:
            register_all(projects)
            load_task(task).prepare(report)
    typer.echo(f"image {image.id} is ready ({time.monotonic() - started:.1f} s): {image.directory}")


@app.command("list")
def list_images() -> None:
    """List the images in the cache, the one in force marked."""
    from karotte_gym.sandbox import cache
    from karotte_gym.sandbox.image import find_image

    current = find_image()
    table = Table("image", "size", "last used", "")
    for entry in reversed(cache.list_entries()):
        if entry.kind == "image":
            size = sum(path.stat().st_size for path in entry.path.iterdir())
            mark = "current" if current and current.id == entry.key else ""
            stamp = time.strftime("%Y-%m-%d %H:%M", time.localtime(entry.last_used_s))
            table.add_row(entry.key, f"{size / 1024**2:.0f} MiB", stamp, mark)
    Console().print(table)


@app.command("path")
def image_path(base: Base = None) -> None:
    """Print the directory of the image in force; exit code 1 when it is not built."""
    from karotte_gym.sandbox.image import find_image

    image = find_image(base)
    if image is None:
        typer.echo("that image is not built, or its sources changed; run `karotte-gym image build`", err=True)
        raise typer.Exit(1)
    typer.echo(str(image.directory))
