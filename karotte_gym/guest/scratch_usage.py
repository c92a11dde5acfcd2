"""What the student has on a scratch disk without quota: a cheap sum first, an exact walk only when that is too much."""

from __future__ import annotations

import os

from .places import SCRATCH

__all__ = ["ScratchUsage"]

SETTLED = 1.02  # after an act, growth by less than this is no new offence: the files are still there, their writers not


class ScratchUsage:
    """Bytes and files of one uid. The whole disk's numbers bound them from above and cost one system call."""

    def __init__(self, uid: int):
        self._uid = uid
        self._forgiven = (0, 0)

    def over(self, max_bytes: int | None, max_files: int | None) -> bool:
        """Whether there is more than allowed, and more than at the last time that it was said so."""
        facts = os.statvfs(SCRATCH)
        used = (facts.f_blocks - facts.f_bfree) * facts.f_frsize, facts.f_files - facts.f_ffree
        if not self._beyond(used, max_bytes, max_files):
            return False
        exact = self._walk()
        if not self._beyond(exact, max_bytes, max_files):
            return False
        self._forgiven = (int(exact[0] * SETTLED), int(exact[1] * SETTLED))
        return True

    def _beyond(self, used: tuple[int, int], max_bytes: int | None, max_files: int | None) -> bool:
        bounds = (max_bytes, max_files)
        return any(
            bound is not None and amount > max(bound, forgiven)
            for amount, bound, forgiven in zip(used, bounds, self._forgiven, strict=True)
        )

    def _walk(self) -> tuple[int, int]:
        size, count = 0, 0
        for directory, names, files, fd in os.fwalk(SCRATCH, follow_symlinks=False):
            del directory
            for name in (*names, *files):
                try:
                    facts = os.stat(name, dir_fd=fd, follow_symlinks=False)
                except FileNotFoundError:
                    continue
                if facts.st_uid == self._uid:
                    size += facts.st_blocks * 512
                    count += 1
        return size, count
