"""Ends what a call runs in the foreground, and leaves the shell and its background jobs alive where that is possible.

A shell's children from before the call are background jobs of earlier ones. Of the others, those that a shell
without job control starts with ``&`` ignore the keyboard's signals from their first instruction; what does not is what
the shell waits for. The shell itself is interrupted as by a keyboard: its own flag is set in its memory, and it acts on
it where it always does, at a safe point.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import re
import signal
import time
from collections.abc import Collection, Iterator

from .aside import Stuck
from .process_table import children_of, pinned, threads_of
from .shell_memory import NotBash
from .shell_process import Shell

__all__ = ["Interruption"]

KILL_AFTER_S = 0.25
WAKE_AFTER_S = 0.2
KILL_ALL_AFTER_S = 0.5
MAX_WAITED_FOR = 8  # a pipeline of more is rare
CROWD = 50  # processes; fewer are ended one by one however long it takes
KILL_SHELL_AFTER_S = 0.85  # of the second that a call may take beyond its timeout
WALK_S = 0.3  # for the processes of a command: some 300, under emulation
STATUS_BYTES = 4096
_STATUS = re.compile(rb"^Uid:\s+\d+\s+(\d+).*^SigIgn:\s+([0-9a-f]+)", re.MULTILINE | re.DOTALL)
_BACKGROUND_MASK = 1 << (signal.SIGINT - 1) | 1 << (signal.SIGQUIT - 1)


class Interruption:
    """Grows harsher the longer the shell needs; call `press` again and again until it is back or dead.

    `jobs`: the shell's children from before the call. Their number and that of its other children is the student's choice,
    so every walk over them has a limit, and begins with the newest, among which is what the shell waits for.
    """

    def __init__(self, shell: Shell, jobs: Collection[int], uid: int):
        self._shell, self._jobs, self._uid = shell, jobs, uid
        self._start = time.monotonic()
        self._poked = False
        self.too_many = False  # they can't be ended one by one in time

    def foreground(self) -> list[int]:
        """What the shell itself waits for, or has waited for and is still dying; not all of it when it is much."""
        until = time.monotonic() + WALK_S
        return list(itertools.islice(self._to_end(until, background_too=False), MAX_WAITED_FOR))

    def press(self) -> None:
        """TERM to the foreground and an interrupt to the shell, later KILL, then KILL to the shell itself."""
        elapsed_s = time.monotonic() - self._start
        if elapsed_s >= KILL_SHELL_AFTER_S:
            self._end_with_the_shell(signal.SIGKILL, background_too=False)
            return
        number = signal.SIGTERM if elapsed_s < KILL_AFTER_S else signal.SIGKILL
        background_too = elapsed_s >= KILL_ALL_AFTER_S
        if not self._poke():  # exec has made the shell's process the foreground program
            self._end_with_the_shell(number, background_too=background_too)
            return
        self._signal(number, background_too=background_too)  # after the interrupt, so that bash does not report what we end
        self._shell.process.kill(signal.SIGCHLD)  # wakes most of bash's calls
        if elapsed_s >= WAKE_AFTER_S:
            self._shell.wake()  # waits for background jobs, or for somebody to open a named pipe

    def over(self) -> None:
        """The shell is back: what it left running ends, and a late interrupt must not hit the next command."""
        if self._poked:
            self._signal(signal.SIGKILL, background_too=False)
            with contextlib.suppress(NotBash, Stuck):  # killed since we looked: the next call will see it
                self._shell.interrupt(False)

    def _poke(self) -> bool:
        """Interrupt what bash itself does; False when it is no bash any more."""
        with contextlib.suppress(Stuck):
            try:
                self._shell.interrupt(True)
            except NotBash:
                return False
            self._poked = True
        return True

    def _end_with_the_shell(self, number: int, *, background_too: bool) -> None:
        """Signal the shell's own process as well; what it would start meanwhile would be found by nobody."""
        process = self._shell.process
        process.kill(signal.SIGSTOP)
        try:
            self._signal(number, background_too=background_too)
        finally:
            process.kill(number)
            process.kill(signal.SIGCONT)

    def _signal(self, number: int, *, background_too: bool) -> None:
        until, found = time.monotonic() + WALK_S, 0
        for child in self._to_end(until, background_too=background_too):
            tree = [child]  # parents first, since at a child's end they begin the next one
            for pid in tree:
                tree.extend(_signal_one(pid, number, self._uid))
                if found + len(tree) > CROWD and time.monotonic() >= until:
                    self.too_many = True  # fewer are a matter of a slow moment, and without their parent never found again
                    return
            found += len(tree)

    def _to_end(self, until: float, *, background_too: bool) -> Iterator[int]:
        """The shell's children that the call has started, the newest first; those that it left in the background if asked."""
        for child in reversed(self._shell.children()):
            if child not in self._jobs and (background_too or not _status(child)[1]):
                yield child
            if time.monotonic() >= until:
                return


def _status(pid: int) -> tuple[int, bool]:
    """Effective uid and whether the keyboard's signals are ignored; (-1, True) when it has ended."""
    found = _STATUS.search(_read_status(pid))
    if found is None:
        return -1, True
    return int(found[1]), int(found[2], 16) & _BACKGROUND_MASK == _BACKGROUND_MASK


def _is_of(pid: int, uid: int) -> bool:
    """Whether a process's effective user is `uid`: it owns the process's directory as a rule, which is read in no time."""
    try:
        return os.stat(f"/proc/{pid}").st_uid == uid or _status(pid)[0] == uid
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


def _signal_one(pid: int, number: int, uid: int) -> list[int]:
    """Signal a process of `uid`; the children that it had.

    Its number may have been reused since it was read: it is pinned. It is stopped while its children are listed: one that
    it made between the list and its own end would have no parent any more by which to find it, and live on.
    """
    pidfd = pinned(pid)
    if pidfd is None:
        return []
    try:
        is_of_user = _is_of(pid, uid)
        if is_of_user:
            _send(pidfd, signal.SIGSTOP)
        try:
            return _children(pid)
        finally:
            if is_of_user:
                _send(pidfd, number)
                _send(pidfd, signal.SIGCONT)  # to the signal's handler; the killed don't mind
    finally:
        os.close(pidfd)


def _children(pid: int) -> list[int]:
    """Those of all its threads: each has its own. All threads of all processes are no more than a session may have."""
    return [child for thread in threads_of(pid) for child in children_of(thread)]


def _send(pidfd: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        signal.pidfd_send_signal(pidfd, number)
