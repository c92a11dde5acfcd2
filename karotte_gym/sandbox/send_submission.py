"""Hands a submission to a grader machine: the same tree of plain files under one directory, owned by root.

A few files go one by one. A tree goes as tar archives that are written here, entry by entry, from names that were
checked on arrival; putting ten thousand files singly would cost ten seconds, in archives it is one. The student's modes
are not kept but for the executable bit: the grader has to be able to read what was handed in, and so has the
unprivileged user that it may run submitted code as.
"""

from __future__ import annotations

import io
import tarfile
from collections.abc import Iterator, Sequence

from karotte_gym.errors import GradingError
from karotte_gym.sandbox.contract import Sandbox, Submission, SubmittedFile
from karotte_gym.sandbox.unpack_archive import unpack_archive

__all__ = ["send_to"]

FEW = 4  # about as many calls as an archive costs: putting it, unpacking it, removing it
MAX_ARCHIVE_BYTES = 32 * 1024 * 1024  # of file data in one archive, which is held in memory here and once more there


def send_to(sandbox: Sandbox, submission: Submission, directory: str, *, staging: str | None = None) -> None:
    """Put what was handed in as ``/a/b`` to ``directory + "/a/b"``. Nothing is put for a missing path.

    Archives lie beside `staging` for a moment, which is `directory` unless that has no room for them.
    """
    files = submission.files
    if len(files) <= FEW and not any(file.is_dir for file in files):
        for file in files:
            _put(sandbox, directory, file)
        return
    for batch in _batches(files):
        if len(batch) == 1 and not batch[0].is_dir:
            _put(sandbox, directory, batch[0])
        else:
            _unpack(sandbox, directory, _archive(batch), staging or directory)


def _put(sandbox: Sandbox, directory: str, file: SubmittedFile) -> None:
    with open(file.data_path, "rb") as stream:
        sandbox.put_file(directory + file.path, stream.read(), mode=_mode(file))


def _mode(file: SubmittedFile) -> int:
    return 0o755 if file.is_dir or file.mode & 0o111 else 0o644


def _batches(files: Sequence[SubmittedFile]) -> Iterator[list[SubmittedFile]]:
    """Consecutive files that fit an archive together; parents stay before children."""
    batch: list[SubmittedFile] = []
    size = 0
    for file in files:
        if batch and size + file.size > MAX_ARCHIVE_BYTES:
            yield batch
            batch, size = [], 0
        batch.append(file)
        size += file.size
    if batch:
        yield batch


def _archive(files: Sequence[SubmittedFile]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for file in files:
            member = tarfile.TarInfo(file.path.lstrip("/"))
            member.mode = _mode(file)
            if file.is_dir:
                member.type = tarfile.DIRTYPE
                archive.addfile(member)
            else:
                member.size = file.size
                with open(file.data_path, "rb") as stream:
                    archive.addfile(member, stream)
    return buffer.getvalue()


def _unpack(sandbox: Sandbox, directory: str, archive: bytes, staging: str) -> None:
    what = "the submission could not be unpacked in the grader machine"
    unpack_archive(sandbox, archive, directory, beside=f"{staging}.", failure=GradingError, what=what)
