"""For scoring scripts: read a submitted file, which its author may have made anything but a small file.

Standard library only; scripts import it by way of `karotte_grading`.
"""

from __future__ import annotations

import os
import stat

__all__ = ["SubmissionUnusable", "read_submitted"]


class SubmissionUnusable(Exception):
    """Why a submitted file was not read, as a sentence that names no path: a reason for a score of 0.

    `kind` is "missing", "unopened" (a link, for one), "no_file" (a directory, a FIFO, a device) or "too_long".
    """

    def __init__(self, kind: str, sentence: str):
        super().__init__(sentence)
        self.kind = kind


def read_submitted(path: str, max_bytes: int, what: str = "file") -> bytes:
    """All bytes of a regular file of at most `max_bytes`; SubmissionUnusable, which calls it `what`, for anything else.

    A link in its place is not followed: it could lead to the answers. A FIFO is not waited for, and of a file that is
    too long no more is read than tells that it is. The directories above it are the grader machine's own copies.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
    except FileNotFoundError:
        raise SubmissionUnusable("missing", f"no {what} was handed in") from None
    except OSError as error:
        raise SubmissionUnusable("unopened", f"the {what} can't be opened: {error.strerror}") from None
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise SubmissionUnusable("no_file", f"the {what} is no regular file")
        data = os.read(descriptor, min(status.st_size, max_bytes) + 1)
    finally:
        os.close(descriptor)
    if len(data) > max_bytes:
        raise SubmissionUnusable("too_long", f"the {what} has more than {max_bytes} bytes")
    return data
