"""Stops processes together with all that they have started, and signals them while none of them can do anything about it.

One at a time would not do: a parent that hands a signal on (``make`` does) ends its children before theirs are known, and
what has lost its parent is found by nobody.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import time
from types import TracebackType

from .process_table import children_of, pinned, threads_of

__all__ = ["Standstill", "status"]

CROWD = 50  # processes and threads; among fewer all are looked at however long it takes
STATUS_BYTES = 4096
_STATUS = re.compile(rb"^Uid:\s+\d+\s+(\d+).*^SigIgn:\s+([0-9a-f]+)", re.MULTILINE | re.DOTALL)


class Standstill:
    """Processes of `uid` that are stopped one after another; whatever comes, they go on at the end of the ``with``.

    Each is pinned, since its number may have been reused since it was read. `until`: when there is no more time for a crowd.
    """

    def __init__(self, uid: int, until: float):
        self._uid, self._until = uid, until
        self._pidfds: dict[int, int] = {}  # parents first
        self._seen: set[int] = set()
        self._looks = 0
        self.complete = True  # False: time was over before all were looked at

    def __enter__(self) -> Standstill:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.signal(signal.SIGCONT)  # to the handler of what they were sent; the killed don't mind
        for pidfd in self._pidfds.values():
            os.close(pidfd)
        self._pidfds.clear()

    def __len__(self) -> int:
        return len(self._pidfds)

    def stop_tree(self, root: int) -> None:
        """Stop a process and its descendants. One that was stopped before is only asked for children that are new.

        A process that is stopped may be in the midst of a fork, which it completes: whoever wants all asks once more.
        """
        tree = [root]
        for pid in tree:
            self.stop(pid)
            tree.extend(self.children(pid))
            if not self.complete:
                return

    def stop(self, pid: int) -> None:
        """Stop one process, if it is the user's and lives."""
        if pid in self._seen:
            return
        self._seen.add(pid)
        pidfd = pinned(pid)
        if pidfd is None:
            return
        if _is_of(pid, self._uid):
            self._pidfds[pid] = pidfd
            _send(pidfd, signal.SIGSTOP)
        else:
            os.close(pidfd)

    def children(self, pid: int) -> list[int]:
        """What a process has started and has not ended, in the order of their start, thread by thread: each has its own."""
        found = []
        for thread in threads_of(pid):
            if self.out_of_time():
                self.complete = False
                break
            self._looks += 1
            found += children_of(thread)
        return found

    def out_of_time(self) -> bool:
        """Whether so many were looked at that no more can be."""
        return self._looks > CROWD and time.monotonic() >= self._until

    def signal(self, number: int) -> None:
        """Send a signal to all, which is dealt with when they go on. KILL ends them at once.

        The last that were found come first: a parent sees its children ended and never stopped, and a group whose leader
        has gone is not sent on its way by the kernel.
        """
        for pidfd in reversed(self._pidfds.values()):
            _send(pidfd, number)


def status(pid: int) -> tuple[int, int]:
    """Effective uid and the mask of ignored signals; (-1, -1) when it has ended."""
    found = _STATUS.search(_read_status(pid))
    return (-1, -1) if found is None else (int(found[1]), int(found[2], 16))


def _is_of(pid: int, uid: int) -> bool:
    """Whether a process's effective user is `uid`: it owns the process's directory as a rule, which is read in no time."""
    try:
        return os.stat(f"/proc/{pid}").st_uid == uid or status(pid)[0] == uid
    except (FileNotFoundError, ProcessLookupError):
        return False


def _read_status(pid: int) -> bytes:
    """Empty when the process has ended. Plain calls: what `open` adds counts, forty processes on."""
    try:
        descriptor = os.open(f"/proc/{pid}/status", os.O_RDONLY | os.O_CLOEXEC)
        try:
            return os.read(descriptor, STATUS_BYTES)
        finally:
            os.close(descriptor)
    except (FileNotFoundError, ProcessLookupError):
        return b""


def _send(pidfd: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        signal.pidfd_send_signal(pidfd, number)
