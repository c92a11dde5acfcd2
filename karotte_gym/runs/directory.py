"""`RunDirectory`: what a run leaves, so laid out that nothing is lost or played twice.

::

    DIR/run.json             configuration (no key), versions, when it began
    DIR/episodes/00007.json  each episode as it ended last, verdict or not
    DIR/earlier/00007-1.json what was tried before and had no verdict
    DIR/evidence/            the environment's own records and submissions
    DIR/summary.json         written when the run ends

Every file appears whole or not at all. One process writes at a time, held by a lock on the directory.
"""

from __future__ import annotations

import contextlib
import datetime
import json
import os
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import Any

import filelock
from pydantic import ValidationError

from karotte_gym.agents.episode import Episode
from karotte_gym.agents.plain_text import encodable
from karotte_gym.errors import ConfigError
from karotte_gym.runs.config import differences
from karotte_gym.run_files import write_json

__all__ = ["RunDirectory"]

_RUN_FILE = "run.json"


class RunDirectory:
    """A directory of one run. Reading needs no lock: files are replaced as a whole."""

    def __init__(self, path: str | Path):
        self.path = Path(path)

    @property
    def exists(self) -> bool:
        """Whether a run has begun here."""
        return (self.path / _RUN_FILE).is_file()

    @property
    def evidence(self) -> Path:
        """Where the environment may keep its own records."""
        return self.path / "evidence"

    def read(self) -> dict[str, Any]:
        """``run.json``. ConfigError when there is none or it is no longer JSON."""
        try:
            data = json.loads((self.path / _RUN_FILE).read_text("utf-8"))
            if not isinstance(data["config"], dict):
                raise ValueError("no configuration in it")
        except OSError as error:
            raise ConfigError(f"{self.path} is no run directory: {_RUN_FILE}: {error.strerror}") from error
        except (ValueError, KeyError, TypeError) as error:
            raise ConfigError(f"{self.path / _RUN_FILE} is damaged: {error}") from error
        return dict(data)

    @contextlib.contextmanager
    def opened(self, config: dict[str, Any]) -> Iterator[None]:
        """Hold the directory for a run with that public configuration; begin it, or check that it is the same run."""
        try:
            (self.path / "episodes").mkdir(parents=True, exist_ok=True)
            (self.path / "earlier").mkdir(exist_ok=True)
            lock = filelock.FileLock(self.path / ".lock", timeout=0)
            with lock:
                self._begin(config)
                yield
        except filelock.Timeout as error:
            raise ConfigError(f"another process is running in {self.path}; give another --run-dir") from error
        except OSError as error:
            raise ConfigError(f"{self.path} can't be written: {error.strerror}") from error

    def save(self, index: int, episode: Episode) -> Path:
        """Keep an episode. One without a verdict is moved aside for it; one with a verdict is never replaced."""
        path = self._episode_path(index)
        if path.exists():
            earlier = self.load(index)
            if earlier is not None and earlier.has_verdict:
                raise RuntimeError(f"episode {index} has a verdict and was played again")
            os.replace(path, self._free_earlier_path(index))
        write_json(path, encodable(episode.model_dump(mode="json")))
        return path

    def load(self, index: int) -> Episode | None:
        """An episode, or None when there is none. ConfigError when its file is damaged."""
        path = self._episode_path(index)
        try:
            return Episode.model_validate_json(path.read_bytes())
        except FileNotFoundError:
            return None
        except (OSError, ValidationError) as error:
            raise ConfigError(f"{path} can't be read as an episode; move it away to have it played again") from error

    def indices(self) -> list[int]:
        """Of all episodes that are there, with a verdict or without."""
        names = [path.stem for path in (self.path / "episodes").glob("*.json")]
        return sorted(int(name) for name in names if name.isdigit())

    def episodes(self) -> Iterator[tuple[int, Episode]]:
        """All of them, in order."""
        for index in self.indices():
            episode = self.load(index)
            if episode is not None:
                yield index, episode

    def finished(self) -> set[int]:
        """Indices of the episodes that have a verdict."""
        return {index for index, episode in self.episodes() if episode.has_verdict}

    def write_summary(self, summary: dict[str, Any]) -> None:
        """Keep what the run came to."""
        write_json(self.path / "summary.json", summary)

    def _begin(self, config: dict[str, Any]) -> None:
        if self.exists:
            kept = self.read()
            changed = differences(kept["config"], config)
            if changed:
                raise ConfigError(
                    f"{self.path} holds a run with another {', '.join(changed)}; "
                    "resume it with the same settings or give another --run-dir"
                )
            write_json(self.path / _RUN_FILE, {**kept, "config": config})
            return
        versions = {name: metadata.version(name) for name in ("karotte-gym", "litellm", "gymnasium")}
        started = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
        write_json(self.path / _RUN_FILE, {"format": 1, "started_at": started, "versions": versions, "config": config})

    def _episode_path(self, index: int) -> Path:
        return self.path / "episodes" / f"{index:05d}.json"

    def _free_earlier_path(self, index: int) -> Path:
        number = 1
        while (path := self.path / "earlier" / f"{index:05d}-{number}.json").exists():
            number += 1
        return path
