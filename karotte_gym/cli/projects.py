"""The option ``--project DIR``, which several commands share: environments outside this package."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from karotte_gym.registration import refuse_task, register_folders

__all__ = ["Projects", "register_all"]

Projects = Annotated[
    list[Path] | None, typer.Option("--project", help="Register the environments of this folder too; repeatable.")
]


def register_all(projects: list[Path] | None) -> None:
    """Register each. A folder that can't be is named by whoever asks for its task or lists all: it stops no other task."""
    for project in projects or []:
        _, wrong = register_folders(project)
        for task_id, sentence in wrong.items():
            refuse_task(task_id, sentence)
