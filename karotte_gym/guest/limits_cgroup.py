"""Memory and processes by the student's control group: the kernel refuses, and kills the whole group together."""

from __future__ import annotations

from . import groups

__all__ = ["GroupLimits"]

_FILES = {"memory_bytes": "memory.max", "process_count": "pids.max"}


class GroupLimits:
    """Reads and writes the group's own files: what is reported is what the kernel holds."""

    def put(self, name: str, value: int | None) -> None:
        """Set one limit; None lifts it."""
        groups.write(groups.STUDENT, _FILES[name], "max" if value is None else value)

    def get(self, name: str) -> int | None:
        """One limit as the kernel has it; memory is rounded down to pages."""
        text = groups.read(groups.STUDENT, _FILES[name])
        return None if text == "max" else int(text)
