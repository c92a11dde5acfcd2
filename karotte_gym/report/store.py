"""`Store`: all runs below a directory as rows for a table, and single episodes on demand.

Thousands of episodes are read once; after that only files that changed. A damaged file is a note on the page, since one
bad file must not hide the others, and never a row with a made-up score.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from karotte_gym.agents.episode import Episode
from karotte_gym.errors import ConfigError
from karotte_gym.evidence.listing import episode_directories, unfinished
from karotte_gym.runs.directory import RunDirectory
from karotte_gym.runs.summary import summarize
from karotte_gym.transcript import TRANSCRIPT

__all__ = ["Store", "detail", "row"]

MAX_DEPTH = 3  # of run directories below the one given: DIR, DIR/runs, DIR/date/runs
_BULKY = ("token_ids", "prompt_token_ids", "logprobs")  # for training, not for reading


class Store:
    """`root` is a run directory or holds some. ConfigError when there is no run in it."""

    def __init__(self, root: str | Path):
        self.root = Path(root)
        self._seen: dict[Path, tuple[tuple[int, int], dict[str, Any], Episode]] = {}
        if not any(True for _ in self._directories()):
            raise ConfigError(_what_it_is(self.root))

    def overview(self) -> dict[str, Any]:
        """``{"runs", "rows", "notes"}``; a row's `id` is what `episode` takes."""
        runs, rows, notes = [], [], []
        for directory in self._directories():
            name = self._name(directory)
            try:
                about = directory.read()
            except ConfigError as error:
                notes.append(str(error))
                continue
            episodes = []
            for index in directory.indices():
                try:
                    shown, episode = self._read(directory, index)
                except ConfigError as error:
                    notes.append(str(error))
                    continue
                rows.append({"id": f"{name}/{index}", "run": name, "index": index, **shown})
                episodes.append(episode)
            notes += [
                f"{path} has no record: it still runs, or its process was killed" for path in unfinished(directory.evidence)
            ]
            summary = summarize(episodes).model_dump(mode="json")
            runs.append({"name": name, **{key: about.get(key) for key in ("started_at", "versions", "config")}})
            runs[-1]["summary"] = summary
        return {"runs": runs, "rows": rows, "notes": notes}

    def episode(self, identity: str) -> dict[str, Any] | None:
        """One episode in full. Only names that a listing gave are looked up: no path is made of what a client says."""
        name, _, index = identity.rpartition("/")
        for directory in self._directories():
            if self._name(directory) == name and index.isdecimal() and int(index) in directory.indices():
                episode = directory.load(int(index))
                return None if episode is None else detail(episode)
        return None

    def _directories(self) -> Iterator[RunDirectory]:
        for folder, folders, _ in os.walk(self.root):
            directory = RunDirectory(folder)
            depth = len(Path(folder).relative_to(self.root).parts)
            if directory.exists or depth >= MAX_DEPTH:
                folders.clear()
            folders.sort()
            if directory.exists:
                yield directory

    def _name(self, directory: RunDirectory) -> str:
        relative = directory.path.relative_to(self.root)
        return str(relative) if relative.parts else directory.path.resolve().name

    def _read(self, directory: RunDirectory, index: int) -> tuple[dict[str, Any], Episode]:
        path = directory.path / "episodes" / f"{index:05d}.json"
        try:
            found = path.stat()
        except OSError as error:
            raise ConfigError(f"{path} can't be read: {error.strerror}") from error
        version = (found.st_mtime_ns, found.st_size)
        kept = self._seen.get(path)
        if kept is None or kept[0] != version:
            episode = directory.load(index)
            if episode is None:
                raise ConfigError(f"{path} went away while it was read")
            slim = episode.model_copy(update={"messages": [], "tools": [], "record": None})
            kept = (version, row(episode), slim)
            self._seen[path] = kept
        return kept[1], kept[2]


def _what_it_is(root: Path) -> str:
    """What was named in place of a run, and what to do with it."""
    for parent in root.resolve().parents[:MAX_DEPTH]:
        if RunDirectory(parent).exists:
            return f"{root} is a part of the run {parent}: name that directory"
    folder = root if root.is_dir() else root.parent
    try:
        episodes = episode_directories(folder)
    except ConfigError:  # it says what `verify` wants; this is about runs
        return f"{root} holds no run: no run.json in it, nor in its folders"
    return (
        f"{root} holds {len(episodes)} episode{'s' if len(episodes) > 1 else ''} of no model: these pages show runs that "
        f"`karotte-gym run --model` wrote; check these with `karotte-gym verify {folder}`, and read what was done in "
        f"{episodes[0] / TRANSCRIPT}"
    )


def row(episode: Episode) -> dict[str, Any]:
    """What the table, the filters and the charts need of an episode."""
    return {
        "task": episode.task_id,
        "agent": episode.agent,
        "seed": episode.seed,
        "status": episode.status,
        "reward": episode.reward,
        "kind": _kind(episode),
        "reason": _reason(episode)[:500],
        "turns": len(episode.turns),
        "tokens": episode.tokens.input_tokens + episode.tokens.output_tokens,
        "cost": episode.tokens.cost_usd,
        "duration": round(episode.duration_s, 3),
        "agent_s": round(episode.agent_s - episode.lost_s, 3),
        "machine_s": round(episode.environment_s, 3),
        "lost_s": round(episode.lost_s, 3),
        "started": episode.started_at,
    }


def detail(episode: Episode) -> dict[str, Any]:
    """An episode for reading: all but the numbers that are there for training."""
    data = episode.model_dump(mode="json")
    for turn in data["turns"]:
        for name in _BULKY:
            values = turn.pop(name)
            if values is not None:
                turn[f"{name}_count"] = len(values)
    return data


def _kind(episode: Episode) -> str:
    if episode.misbehavior:
        return episode.misbehavior_kind or "unnamed"
    if episode.status == "error":
        return episode.error.kind if episode.error else "unnamed"
    return episode.limit or ""


def _reason(episode: Episode) -> str:
    if episode.misbehavior:
        return episode.misbehavior
    if episode.error is not None:
        return episode.error.message
    return f"{episode.limit} limit" if episode.limit else ""
