"""Receives a submission on the host (`receive`) and hands it to the grader machine (`send_to`).

The stream comes out of a machine in which the student ran, so it is judged here as if the student had written it:
types, order, paths, counts, sizes and digests are all checked again, and nothing that the guest's own custody
promised is believed. Bytes are stored in files that are named by running numbers; a name from the machine is text and
never a path of the host. Whatever no honest agent sends is `MachineDied` with cause "protocol".
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Sequence

from karotte_gym.config import SubmissionLimits
from karotte_gym.errors import CallRefused, GradingError
from karotte_gym.sandbox.contract import Submission, SubmittedFile
from karotte_gym.sandbox.incoming_file import IncomingFile
from karotte_gym.sandbox.incoming_tree import IncomingTree, only, rubbish
from karotte_gym.sandbox.send_submission import send_to
from karotte_gym.scoring import MisbehaviorKind, StudentMisbehavior

__all__ = ["below", "listing_digest", "receive", "send_to"]

MAX_SENTENCE_CHARS = 600


def receive(
    parts: Iterator[tuple[dict[str, object], bytes]], into: str, limits: SubmissionLimits, paths: Sequence[str]
) -> Submission:
    """Store what `parts` bring under the directory `into` (private, ours alone) and describe it.

    Raises StudentMisbehavior when the guest's custody refused, MachineDied(cause="protocol") for a stream that is
    wrong, GradingError when the host can't store it. After any of them nothing of it is left in `into`.
    """
    receiver = _Receiver(into, limits, paths)
    try:
        for part, body in parts:
            receiver.take(part, body)
        return receiver.result()
    except BaseException as error:
        receiver.discard()
        if isinstance(error, CallRefused) and error.kind == "custody":
            raise StudentMisbehavior(MisbehaviorKind.CUSTODY, _sentence(str(error))) from error
        if isinstance(error, OSError):
            raise GradingError(f"the submission could not be stored in {into}: {error.strerror}") from error
        raise


def below(submission: Submission, paths: Sequence[str]) -> Submission:
    """The part of a submission that is one of `paths` or below one."""
    files = tuple(file for file in submission.files if any(f"{file.path}/".startswith(f"{path}/") for path in paths))
    return Submission(files=files, sha256=listing_digest(files), directory=submission.directory)


class _Receiver:
    """State of one stream: the tree so far, and the file that is being received, if one is."""

    def __init__(self, into: str, limits: SubmissionLimits, paths: Sequence[str]):
        self._into = into
        self._tree = IncomingTree(limits, paths)
        self._file: IncomingFile | None = None
        self._files: list[SubmittedFile] = []
        self._written: list[str] = []

    def take(self, part: dict[str, object], body: bytes) -> None:
        """One part. Exactly one key says what it is."""
        if not isinstance(part, dict) or len(part) != 1:
            raise rubbish("a part that is not one of the known ones")
        ((kind, value),) = part.items()
        if kind in ("data", "hole", "end"):
            self._continue(kind, value, body)
            return
        if self._file is not None:
            raise rubbish(f"{kind!r:.50} in the middle of a file")
        if body:
            raise rubbish(f"bytes with {kind!r:.50}")
        if kind == "missing":
            self._tree.missing(value)
        elif kind == "dir":
            path, mode = only(value, path=str, mode=int)
            self._tree.add_directory(path, mode)
            self._files.append(SubmittedFile(path, is_dir=True, mode=mode, size=0, sha256="", data_path=""))
        elif kind == "file":
            self._begin(*only(value, path=str, mode=int, size=int))
        else:
            raise rubbish(f"an unknown part {kind!r:.50}")

    def _begin(self, path: str, mode: int, size: int) -> None:
        self._tree.add_file(path, mode, size)
        data_path = os.path.join(self._into, f"{len(self._written):06d}")
        self._file = IncomingFile(path, mode, size, data_path)
        self._written.append(data_path)

    def _continue(self, kind: str, value: object, body: bytes) -> None:
        if self._file is None:
            raise rubbish(f"{kind} outside a file")
        if kind == "data":
            (offset,) = only(value, offset=int)
            self._file.data(offset, body)
            return
        if body:
            raise rubbish(f"bytes with {kind}")
        if kind == "hole":
            self._file.hole(*only(value, offset=int, length=int))
        else:
            (sha256,) = only(value, sha256=str)
            self._files.append(self._file.end(sha256))
            self._file = None

    def result(self) -> Submission:
        """The submission, once the stream has ended where it may end."""
        if self._file is not None:
            raise rubbish("the end in the middle of a file")
        self._tree.check_complete()
        return Submission(
            files=tuple(self._files),
            missing=tuple(self._tree.missing_paths),
            sha256=listing_digest(self._files),
            directory=self._into,
        )

    def discard(self) -> None:
        """Remove what was written."""
        if self._file is not None:
            self._file.close()
        for data_path in self._written:
            os.unlink(data_path)


def listing_digest(files: Sequence[SubmittedFile]) -> str:
    """One digest for what was handed in: over the sorted listing, so the order of arrival does not matter."""
    listing = sorted((file.path, file.is_dir, file.mode, file.size, file.sha256) for file in files)
    return hashlib.sha256(json.dumps(listing, separators=(",", ":")).encode()).hexdigest()


def _sentence(text: str) -> str:
    """The guest's sentence, made harmless: it goes into records and onto terminals."""
    shown = "".join(letter if letter.isprintable() else "\ufffd" for letter in text)
    return shown if len(shown) <= MAX_SENTENCE_CHARS else f"{shown[:MAX_SENTENCE_CHARS]}..."
