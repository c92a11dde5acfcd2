"""A submission rebuilt from the run directory: bytes that were checked while they were copied to a place of our own.

Checking a file and opening it again would leave time to put another in its place. The listing is judged as if it had
come from a machine: a record is anybody's, and a path such as ``/../grade/grade.py`` in it would put a grader of the
forger's own where the task's is, and have a forged score confirmed.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from pathlib import Path

from karotte_gym.config import SubmissionLimits
from karotte_gym.errors import EvidenceError, MachineDied
from karotte_gym.record import StepRecord, SubmittedEntry
from karotte_gym.run_files import BLOCK_BYTES, open_below
from karotte_gym.sandbox.contract import Submission, SubmittedFile
from karotte_gym.sandbox.incoming_tree import IncomingTree

__all__ = ["stored_submission"]


def stored_submission(
    directory: Path, step: StepRecord, into: Path, paths: Sequence[str], limits: SubmissionLimits
) -> Submission:
    """What custody took of `paths`, with its files in `into`, a new private directory.

    EvidenceError when the listing is none that custody gives, or the stored bytes are not those listed.
    """
    _check_listing(step, paths, limits)
    into.mkdir(mode=0o700)
    files = []
    for number, entry in enumerate(step.submission):
        copy = "" if entry.is_dir else str(into / f"{number:06d}")
        if not entry.is_dir:
            _copy_checked(directory, entry, copy)
        files.append(SubmittedFile(entry.path, entry.is_dir, entry.mode, entry.size, entry.sha256, copy))
    return Submission(tuple(files), tuple(step.missing), step.submission_sha256, str(into))


def _check_listing(step: StepRecord, paths: Sequence[str], limits: SubmissionLimits) -> None:
    tree = IncomingTree(limits, paths)
    waiting = list(step.submission)
    try:
        for path in paths:
            if path in step.missing:
                tree.missing(path)
            while waiting and (waiting[0].path == path or waiting[0].path.startswith(f"{path}/")):
                entry = waiting.pop(0)
                if entry.is_dir:
                    tree.add_directory(entry.path, entry.mode)
                else:
                    tree.add_file(entry.path, entry.mode, entry.size)
        tree.check_complete()
    except MachineDied as error:
        raise EvidenceError(f"the listing of the submission is none that custody gives: {error}") from error
    if waiting:
        raise EvidenceError(f"the listing of the submission holds {waiting[0].path!r:.200}, which the step does not ask for")


def _copy_checked(directory: Path, entry: SubmittedEntry, target: str) -> None:
    if not entry.artifact:
        raise EvidenceError(f"the bytes of {entry.path!r:.200} were not kept")
    try:
        source = open_below(directory, entry.artifact)
    except OSError as error:
        raise EvidenceError(f"{entry.artifact} can't be read: {error.strerror}") from error
    digest, left = hashlib.sha256(), entry.size
    with os.fdopen(source, "rb") as stored, open(target, "xb") as copy:
        while block := stored.read(min(BLOCK_BYTES, left + 1)):
            digest.update(block)
            left -= len(block)
            if left < 0:
                break  # longer than recorded
            copy.write(block)
    if left or digest.hexdigest() != entry.sha256:
        raise EvidenceError(f"{entry.artifact} is not what was handed in as {entry.path!r:.200}")
