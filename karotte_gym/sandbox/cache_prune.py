"""Keeping the cache small: what is in it, how large it is, and removing what was not used for longest."""

from __future__ import annotations

import contextlib
import os
import re
import time
from dataclasses import dataclass
from pathlib import Path

from karotte_gym.errors import CacheError, ConfigError
from karotte_gym.sandbox.cache_entry import KEY, KINDS, cache_root, discard, sweep
from karotte_gym.sandbox.directory_lock import alone_with, is_held

__all__ = ["DEFAULT_CAP_BYTES", "Entry", "cap_bytes", "enforce_cap", "list_entries", "parse_size", "prune", "set_cap"]

DEFAULT_CAP_BYTES = 20 * 1024**3  # about a hundred snapshots of 512 MiB machines, which store 100 to 200 MB each
FRESH_S = 900.0  # what was used this recently is not removed unasked: somebody may be about to start from it
CAP_NAME = "cap"


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry as `list_entries` sees it."""

    kind: str
    key: str
    path: Path
    size_bytes: int  # as stored: holes cost nothing
    last_used_s: float  # seconds since the epoch
    in_use: bool


def list_entries() -> list[Entry]:
    """All entries, least recently used first."""
    found = []
    for kind in KINDS:
        directory = cache_root() / kind
        for path in sorted(directory.iterdir()) if directory.is_dir() else ():
            if KEY.fullmatch(path.name) and path.is_dir():
                with contextlib.suppress(FileNotFoundError):  # pruned by someone else meanwhile
                    found.append(_entry(kind, path))
    return sorted(found, key=lambda entry: entry.last_used_s)


def prune(max_bytes: int = 0, kinds: tuple[str, ...] = KINDS, unused_s: float = 0.0) -> list[Entry]:
    """Remove the least recently used entries until all together store at most `max_bytes`; returns what went.

    Entries in use stay, and those used within the last `unused_s` seconds. So do half-made ones of living builds; those
    of dead ones go.
    """
    for kind in KINDS:
        sweep(cache_root() / kind)
    entries = [entry for entry in list_entries() if entry.kind in kinds]
    total, gone = sum(entry.size_bytes for entry in entries), []
    for entry in entries:
        if total <= max_bytes or entry.last_used_s > time.time() - unused_s:
            break  # sorted by last use: all that follow are younger still
        if _remove_unused(entry.path):
            total -= entry.size_bytes
            gone.append(entry)
    return gone


def cap_bytes() -> int:
    """How much the cache may store before it prunes itself."""
    path = cache_root() / CAP_NAME
    try:
        return int(path.read_text(encoding="ascii"))
    except FileNotFoundError:
        return DEFAULT_CAP_BYTES
    except ValueError:
        raise CacheError(f"{path} holds no number; set it anew with `karotte-gym cache cap SIZE`") from None


def set_cap(size_bytes: int) -> None:
    """Remember another cap."""
    path = cache_root() / CAP_NAME
    beside = path.with_name(f".{CAP_NAME}-{os.getpid()}")
    beside.write_text(f"{size_bytes}\n", encoding="ascii")
    beside.replace(path)


def enforce_cap() -> list[Entry]:
    """Prune to the cap, but leave what was used lately."""
    return prune(cap_bytes(), unused_s=FRESH_S)


def parse_size(text: str) -> int:
    """Bytes of "500M", "20G", "1.5GiB" or a plain number; units are binary."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([KMGT]?)(?:i?B)?", text.strip(), re.IGNORECASE)
    if not match:
        raise ConfigError(f"{text!r} is no size; write one like 500M or 20G")
    return int(float(match[1]) * 1024 ** " KMGT".index(match[2].upper() or " "))


def _entry(kind: str, path: Path) -> Entry:
    facts = [os.lstat(os.path.join(top, name)) for top, _, names in os.walk(path) for name in names]
    size = sum(fact.st_blocks * 512 // fact.st_nlink for fact in facts)  # images share a root file system by hard links
    return Entry(kind, path.name, path, size, path.stat().st_mtime, is_held(path))


def _remove_unused(path: Path) -> bool:
    with contextlib.ExitStack() as stack:
        try:
            alone = stack.enter_context(alone_with(path))
        except FileNotFoundError:  # removed by somebody else meanwhile
            return True
        if alone:
            discard(path)  # renamed while we hold it alone: a later `use` sees that the name is gone
        return alone
