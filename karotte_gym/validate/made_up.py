"""Makes submissions as custody would have left them: plain files under names of our own, described by their digests."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from karotte_gym.sandbox.contract import Submission, SubmittedFile
from karotte_gym.sandbox.submission import listing_digest

__all__ = ["described", "rewritten", "same_values", "sparse", "with_other_types"]

FILE_MODE, DIRECTORY_MODE = 0o644, 0o755


def rewritten(
    submission: Submission, paths: Sequence[str], make: Callable[[bytes], bytes | None], into: Path, max_bytes: int
) -> Submission | None:
    """Every file at or below `paths` with other bytes; None when `make` has no other form of any of them.

    A path that the solution did not hand in becomes a file of its own. Bytes over `max_bytes`, which custody would have
    refused, are cut off.
    """
    files, changed = [], False
    for number, file in enumerate(submission.files):
        new = make(_content(file)) if not file.is_dir and _below(file.path, paths) else None
        changed |= new is not None
        files.append(file if new is None else described(file.path, new[:max_bytes], into / str(number), file.mode))
    for number, path in enumerate(path for path in paths if path in submission.missing):
        if (new := make(b"")) is not None:
            files.append(described(path, new[:max_bytes], into / f"missing-{number}"))
            changed = True
    return _of(files, [path for path in submission.missing if path not in paths], into) if changed else None


def same_values(right: Submission, other: Submission) -> bool:
    """Whether it is the right answer after all, which may be 0 or an empty list: each file the same but for its blanks."""
    if [(file.path, file.is_dir) for file in right.files] != [(file.path, file.is_dir) for file in other.files]:
        return False
    pairs = [(one, two) for one, two in zip(right.files, other.files, strict=True) if not one.is_dir]
    return all(_content(one).split() == _content(two).split() for one, two in pairs if one.sha256 != two.sha256)


def with_other_types(submission: Submission, paths: Sequence[str], into: Path) -> Submission:
    """An empty directory where a file was asked for, and a small file where a directory was."""
    kept = [file for file in submission.files if not _below(file.path, paths)]
    for number, path in enumerate(paths):
        if any(file.path == path and file.is_dir for file in submission.files):
            kept.append(described(path, b"a file\n", into / f"file-{number}"))
        else:
            kept.append(SubmittedFile(path, True, DIRECTORY_MODE, 0, "", ""))
    return _of(kept, [path for path in submission.missing if path not in paths], into)


def sparse(submission: Submission, paths: Sequence[str], size: int, into: Path) -> Submission:
    """One file of `size` zeros that takes no room on this host, in place of the first file at or below each path."""
    kept = [file for file in submission.files if file.is_dir or not _below(file.path, paths)]
    for number, path in enumerate(paths):
        at = next((file.path for file in submission.files if not file.is_dir and _below(file.path, [path])), path)
        data = into / f"sparse-{number}"
        with open(data, "wb") as stream:
            stream.truncate(size)
        with open(data, "rb") as stream:
            digest = hashlib.file_digest(stream, "sha256").hexdigest()
        kept.append(SubmittedFile(at, False, FILE_MODE, size, digest, str(data)))
    return _of(kept, [path for path in submission.missing if path not in paths], into)


def described(path: str, content: bytes, data: Path, mode: int = FILE_MODE) -> SubmittedFile:
    """A file of these bytes, which are written to `data`."""
    data.write_bytes(content)
    return SubmittedFile(path, False, mode, len(content), hashlib.sha256(content).hexdigest(), str(data))


def nothing_of(submission: Submission, paths: Sequence[str]) -> Submission:
    """Nothing was handed in."""
    return replace(submission, files=(), missing=tuple(paths), sha256=listing_digest(()))


def _of(files: Sequence[SubmittedFile], missing: Sequence[str], into: Path) -> Submission:
    ordered = tuple(sorted(files, key=lambda file: file.path.split("/")))
    return Submission(ordered, tuple(missing), listing_digest(ordered), str(into))


def _content(file: SubmittedFile) -> bytes:
    with open(file.data_path, "rb") as stream:
        return stream.read()


def _below(path: str, tops: Sequence[str]) -> bool:
    return any(path == top or path.startswith(top + "/") for top in tops)
