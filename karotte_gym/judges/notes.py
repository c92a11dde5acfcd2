"""Keeps a judge's notes within what `Scoring` takes: a student that makes them long must not turn a score into an error."""

from __future__ import annotations

import json
from typing import Any

from karotte_gym.scoring import MAX_METADATA_BYTES, MAX_METADATA_DEPTH, depth_of

__all__ = ["GRADING_FAULT", "fitting", "plain"]

GRADING_FAULT = "grading_fault"  # in the metadata of a 0 that no judgement is behind: timeout, exit, no_result, raised, ...
LEFT_OUT = {"left_out": "these notes were too long or nested too deep to be kept"}


def plain(text: str, max_chars: int) -> str:
    """Text that a submission may have chosen: one that no terminal acts on, and no longer than `max_chars`."""
    shown = "".join(letter if letter.isprintable() or letter == "\n" else "\ufffd" for letter in text[: max_chars + 1])
    return shown if len(shown) <= max_chars else shown[:max_chars] + "..."


def fitting(notes: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """The notes of several judges, the deepest and the longest left out until the rest fits; each score always stays."""
    kept = {
        name: note | {"metadata": LEFT_OUT} if depth_of(note) >= MAX_METADATA_DEPTH else note for name, note in notes.items()
    }
    while len(json.dumps(kept)) > MAX_METADATA_BYTES:
        longest = max(kept, key=lambda name: len(json.dumps(kept[name]["metadata"])))
        kept[longest] = kept[longest] | {"metadata": LEFT_OUT}
    return kept
