"""Which files an episode's directory holds, and which directories below a run's hold an episode. Links are not followed."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from karotte_gym.errors import ConfigError, EvidenceError
from karotte_gym.record import RECORD
from karotte_gym.transcript import TRANSCRIPT

__all__ = ["MAX_NAMES", "episode_directories", "names_in", "unfinished"]

MAX_NAMES = 100_000  # ten full submissions; more was not written by us
SHOWN_CHARS = 300  # of a path that somebody made too long to be opened
MAX_DEPTH = 4  # of episodes below the directory that is named: DIR/date/run/evidence/episode


def names_in(directory: Path, prefix: str = "") -> Iterator[str]:
    """Every file, link and special, as "a" or "a/b", and every empty directory, as "a/" or "a/b/".

    So an added directory is named, by what is in it or by itself. EvidenceError when there are absurdly many entries or
    one can't be read.
    """
    waiting = [(directory, prefix)]
    count = 0
    while waiting:
        folder, prefix = waiting.pop()
        try:
            with os.scandir(folder) as entries:
                found = sorted(entries, key=lambda entry: entry.name)
        except OSError as error:
            raise EvidenceError(f"{str(folder)[:SHOWN_CHARS]} can't be listed: {error.strerror}") from error
        if not found and prefix:
            yield prefix
        for entry in found:
            count += 1
            if count > MAX_NAMES:
                raise EvidenceError(f"{directory} holds more than {MAX_NAMES} entries: nothing that karotte-gym wrote")
            if entry.is_dir(follow_symlinks=False):
                waiting.append((Path(entry.path), f"{prefix}{entry.name}/"))
            else:
                yield prefix + entry.name


def episode_directories(root: Path) -> list[Path]:
    """`root` when it is an episode's own directory, else those below it, in order. ConfigError when there are none."""
    if not root.is_dir():
        raise ConfigError(f"{root} is no record and no run directory: name a record.json or a directory that holds some")
    if _is_episode(root):
        return [root]
    found = sorted(_below(root, MAX_DEPTH))
    if not found:
        raise ConfigError(f"{root} holds no episode: no {RECORD} and no {TRANSCRIPT} in it, nor in its folders")
    return found


def unfinished(root: Path) -> list[Path]:
    """Episodes directly below `root` that have a transcript and no record: killed, or still going on."""
    if not root.is_dir():
        return []
    return sorted(
        Path(entry.path)
        for entry in os.scandir(root)
        if entry.is_dir(follow_symlinks=False)
        and os.path.lexists(Path(entry.path) / TRANSCRIPT)
        and not os.path.lexists(Path(entry.path) / RECORD)
    )


def _is_episode(directory: Path) -> bool:
    return os.path.lexists(directory / RECORD) or os.path.lexists(directory / TRANSCRIPT)


def _below(root: Path, depth: int) -> Iterator[Path]:
    with os.scandir(root) as entries:
        folders = [Path(entry.path) for entry in entries if entry.is_dir(follow_symlinks=False)]
    for folder in folders:
        if _is_episode(folder):
            yield folder
        elif depth > 1:
            yield from _below(folder, depth - 1)
