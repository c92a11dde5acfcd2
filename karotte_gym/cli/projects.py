"""The option ``--project DIR``, which several commands share: environments outside this package."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from karotte_gym.registration import register_project

__all__ = ["Projects", "register_all"]

Projects = Annotated[
    list[Path] | None, typer.Option("--project", help="Register the environments of this folder too; repeatable.")
]


def register_all(projects: list[Path] | None) -> None:
    """Register each."""
    for project in projects or []:
        register_project(project)
