"""Once what a grader machine will be asked for, while nobody waits for it: an emulator translates code when it first runs."""

from __future__ import annotations

import os
from typing import Any

from . import scoring, transfer
from .calls import Call, Machine
from .hygiene import is_trusted
from .places import PRIVATE

__all__ = ["rehearse"]


def rehearse(machine: Machine) -> None:
    """Put a file, and make the directories of a scoring script; both go again."""
    path = f"{PRIVATE}/rehearsal"
    params = {"path": path, "mode": 0o644, "owner": "root", "token": "0" * 32, "append": False, "last": True}
    transfer.METHODS["put_file"](machine, Call("put_file", params, b"x", _nothing_comes_in_parts))
    os.unlink(path)
    is_trusted(scoring.RUNNER)
    with scoring.directories():
        pass


def _nothing_comes_in_parts(_header: dict[str, Any], _body: bytes) -> None:
    raise AssertionError("a file is put in one piece and answered in one")
