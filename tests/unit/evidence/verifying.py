"""What the tests of `verify` ask and forge."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import Any

from typer.testing import CliRunner

from karotte_gym.cli.main import app
from karotte_gym.errors import EvidenceError
from karotte_gym.evidence import sealing
from karotte_gym.evidence.sealing import read_record
from karotte_gym.evidence.verify import Verified
from karotte_gym.run_files import write_json

BASH = {"name": "bash", "arguments": {"command": "true"}}
SUBMIT = {"name": "submit", "arguments": {"message": "done"}}


def wrong(found: Verified) -> list[tuple[str, str]]:
    return [(finding.artifact, finding.verdict) for finding in found.findings if not finding.ok]


def cli(*arguments: object) -> tuple[int, Any]:
    done = CliRunner().invoke(app, ["verify", *map(str, arguments), "--json"])
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return done.exit_code, json.loads(done.stdout)


def flip(path: Path, at: int = -2) -> None:
    data = bytearray(path.read_bytes())
    data[at] ^= 1
    path.write_bytes(data)


def forge(directory: Path, step: dict[str, Any] | None = None, **changes: object) -> None:
    """Change the record, and the first of its steps, and seal it again without a key."""
    path = directory / "record.json"
    values = json.loads(path.read_text())
    values["steps"][0].update(step or {})
    values.update(changes)
    with contextlib.suppress(EvidenceError):  # what is no record can't be sealed, and is none with any seal
        write_json(path, values)
        values["seal"] = sealing._seal(read_record(path), None).model_dump()
    write_json(path, values)
