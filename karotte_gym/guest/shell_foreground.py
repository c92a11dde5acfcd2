"""Ends what a call runs in the foreground, and leaves the shell and its background jobs alive where that is possible.

A shell's children from before the call are background jobs of earlier ones. Of the others, those that a shell
without job control starts with ``&`` ignore the keyboard's signals from their first instruction; what does not is what
the shell waits for. The shell itself is interrupted as by a keyboard: its own flag is set in its memory, and it acts on
it where it always does, at a safe point.
"""

from __future__ import annotations

import contextlib
import itertools
import signal
import time
from collections.abc import Collection, Iterator

from .aside import Stuck
from .shell_memory import NotBash
from .shell_process import Shell
from .standstill import Standstill, status

__all__ = ["Interruption"]

KILL_AFTER_S = 0.25
WAKE_AFTER_S = 0.2
KILL_ALL_AFTER_S = 0.5
MAX_WAITED_FOR = 8  # a pipeline of more is rare
KILL_SHELL_AFTER_S = 0.85  # of the second that a call may take beyond its timeout
WALK_S = 0.3  # for the processes of a command: some 300, under emulation
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
        self.ended: set[int] = set()  # children of the shell that were signalled
        self.too_many = False  # they can't be ended one by one in time

    def foreground(self) -> list[int]:
        """What the shell itself waits for; not all of it when it is much."""
        until = time.monotonic() + WALK_S
        return list(itertools.islice(self._to_end(self._shell.children(), until, background_too=False), MAX_WAITED_FOR))

    def press(self) -> None:
        """TERM to the foreground and an interrupt to the shell, later KILL, then KILL to the shell itself."""
        elapsed_s = time.monotonic() - self._start
        if elapsed_s >= KILL_SHELL_AFTER_S:
            self._end(signal.SIGKILL, background_too=False, shell_too=True)
            return
        number = signal.SIGTERM if elapsed_s < KILL_AFTER_S else signal.SIGKILL
        is_bash = self._poke()  # first, so that bash does not report what we end
        self._end(number, background_too=elapsed_s >= KILL_ALL_AFTER_S, shell_too=not is_bash)
        if is_bash:
            self._shell.process.kill(signal.SIGCHLD)  # wakes most of bash's calls
            if elapsed_s >= WAKE_AFTER_S:
                self._shell.wake()  # waits for background jobs, or for somebody to open a named pipe

    def over(self) -> None:
        """The shell is back: what it left running ends, and a late interrupt must not hit the next command."""
        if self._poked:
            self._end(signal.SIGKILL, background_too=False, shell_too=False)
            with contextlib.suppress(NotBash, Stuck):  # killed since we looked: the next call will see it
                self._shell.interrupt(False)

    def _poke(self) -> bool:
        """Interrupt what bash itself does; False when exec has made the shell's process the foreground program."""
        with contextlib.suppress(Stuck):
            try:
                self._shell.interrupt(True)
            except NotBash:
                return False
            self._poked = True
        return True

    def _end(self, number: int, *, background_too: bool, shell_too: bool) -> None:
        """Signal what the call has started, and all that this has; the shell's own process as well, if it has to go."""
        until = time.monotonic() + WALK_S
        with Standstill(self._uid, until) as still:
            if shell_too:
                still.stop(self._shell.process.pid)
            self._stop(still, until, background_too=background_too)
            self.too_many |= not still.complete
            known = 0
            while known < len(still) and not still.out_of_time():  # what was in the midst of a fork has one more
                known = len(still)
                self._stop(still, until, background_too=background_too)
            still.signal(number)

    def _stop(self, still: Standstill, until: float, *, background_too: bool) -> None:
        children = still.children(self._shell.process.pid)
        for child in self._to_end(children, until, background_too=background_too):
            self.ended.add(child)
            still.stop_tree(child)
            if not still.complete:
                return

    def _to_end(self, children: list[int], until: float, *, background_too: bool) -> Iterator[int]:
        """Those that the call has started, the newest first; of them those that it left in the background only if asked."""
        for child in reversed(children):
            if child in self._jobs:
                continue
            if background_too or not _in_background(child):
                yield child
            elif time.monotonic() >= until:
                return


def _in_background(pid: int) -> bool:
    """Whether it ignores the keyboard's signals, or has ended."""
    return status(pid)[1] & _BACKGROUND_MASK == _BACKGROUND_MASK
