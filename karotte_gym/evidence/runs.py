"""A model run keeps each episode's record twice: in its own file and in the evidence. Both have to be the same."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from karotte_gym.agents.plain_text import encodable
from karotte_gym.errors import ConfigError, EvidenceError
from karotte_gym.evidence.sealing import read_record
from karotte_gym.evidence.verify import Finding
from karotte_gym.record import RECORD
from karotte_gym.runs.directory import RunDirectory

__all__ = ["episodes_that_differ"]


def episodes_that_differ(root: Path) -> Iterator[Finding]:
    """Of a run directory: episodes whose verdict is not that of the evidence they name. Nothing for other directories."""
    run = RunDirectory(root)
    if not run.exists:
        return
    for index in run.indices():
        name = f"episodes/{index:05d}.json"
        try:
            episode = run.load(index)
            if episode is None or not episode.record or not run.evidence.is_dir():
                continue
            folder = episode.run_id
            if not folder or folder != os.path.basename(folder) or folder in (".", ".."):
                yield Finding(name, "differs", f"{folder!r:.200} is no name of an episode")
                continue
            record = read_record(run.evidence / folder / RECORD)
        except (ConfigError, EvidenceError) as error:
            yield Finding(name, "differs", str(error))
            continue
        same = encodable(record.model_dump(mode="json")) == episode.record
        if not same or (episode.has_verdict and episode.score != record.score):
            yield Finding(name, "differs", f"it holds another record or score than evidence/{folder}")
