"""Keeps a session in shells: starts one, replaces it when it has ended, and makes room for it when there is none."""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from .aside import Aside
from .process_table import FEW_THREADS, threads
from .shell_pipes import Drain, PipeDirectory
from .shell_process import HOME, Shell
from .spawning import LauncherGone

if TYPE_CHECKING:
    from .session import Session

__all__ = ["NEW_SHELL", "ShellSupply"]

NEW_SHELL = f"a new shell was started in {HOME}; variables, functions and options of the old one are gone"
MADE_ROOM = "all processes of the session were ended, because no shell got ready beside them; "
MADE_MORE_ROOM = "files in /dev/shm and System V segments were removed as well, because still no shell got ready; "
PATIENCE_S = 3.0  # with nothing else in the machine a shell is ready in a tenth of it, under emulation
MAX_GRANTED_S = 9.0  # more, to a shell that runs and does not get ready; short of memory it may run for ever
MOST = 0.5
RETRY_S = 0.05
STEADY_S = 0.3  # without an end among them those who run are not the dying
QUIET_THREADS = 2  # the one that asks, and another of the agent's
REST_S, MIN_REST_S = 1.0, 0.2  # for the dying; an answer must not come late for it


class ShellSupply:
    """The shell of one session. One thread at a time.

    A student that fills the process table, the memory or the processor (a bomb of forks is one line) has a session in
    which no new shell gets ready, and would have none for the rest of its episode. After `PATIENCE_S` of that, in one
    call or over several, `end_processes` ends whatever the student runs, and the next time takes away the memory that no
    process owns. A shell that has the processor and is not ready is on a slow host, which is waited for; so is, once,
    one that nothing is seen to stand in the way of.
    """

    def __init__(self, session: Session, pipes: PipeDirectory, drain: Drain, end_processes: Callable[[float, bool], None]):
        self._session, self._pipes, self._drain, self._end_processes = session, pipes, drain, end_processes
        self._aside = Aside()
        self._waiting_since: float | None = None
        self._patience_s = PATIENCE_S
        self._granted_s = 0.0
        self._was_patient = False  # once more, with a host that may be slow
        self._made_room = False  # in vain so far
        self._some_die = False  # and the next command is not to find them
        _, self._threads_before = threads()
        self.shell: Shell | None = None

    def ready(self, deadline: float) -> tuple[Shell | None, str]:
        """A shell at its prompt, None when there was none by `deadline`; and what had to happen for it, for the note."""
        note = self._replace_if_ended()
        if self._some_die:
            self._let_them_die(time.monotonic() + min(PATIENCE_S, (deadline - time.monotonic()) / 2))
        if self.shell is not None:
            self._leave_crowd()
        while not self._is_ready(deadline):
            now = time.monotonic()
            if now >= deadline:
                return None, note
            if now >= self._patience_ends():
                if self._has_the_processor() and self._granted_s < MAX_GRANTED_S and not self._made_room:
                    self._granted_s += PATIENCE_S
                elif self._others_run() or self._was_patient:
                    note += "" if MADE_ROOM in note else MADE_ROOM
                    note += MADE_MORE_ROOM if self._made_room and MADE_MORE_ROOM not in note else ""
                    self.make_room(min(REST_S, max(MIN_REST_S, deadline - now)))
                    self._made_room = True
                else:
                    self._waiting_since, self._was_patient = None, True
            elif self.shell is None:
                time.sleep(RETRY_S)
        self._waiting_since, self._patience_s, self._granted_s = None, PATIENCE_S, 0.0
        self._was_patient = self._made_room = False
        return self.shell, note

    def start(self) -> Shell | None:
        """The shell, started if there is none; it may not be ready yet. None when none can be started at this moment."""
        if self.shell is None:
            self._leave_crowd()
            with contextlib.suppress(OSError, LauncherGone):  # full process table, end of the session: the note says it
                self.shell = Shell(self._session, self._pipes, self._aside)
        return self.shell

    def discard(self) -> None:
        """End the shell. What it started lives on, and may go on writing."""
        shell, self.shell = self.shell, None
        if shell is not None:
            self._drain.adopt(shell.close())

    def close(self) -> None:
        """End the shell for good."""
        self.discard()
        self._aside.close()

    def leave_the_dying(self, foreground: Sequence[int]) -> None:
        """A shell that has to come back, because its call is ended, doesn't wait for its turn among its own children.

        Those that it waits for it takes along: it would tell of their end in the midst of what comes next.
        """
        self._some_die = True
        self._leave_crowd(foreground)

    def make_room(self, rest_s: float) -> None:
        """End the shell and everything else that the student runs, and give it `rest_s` to die."""
        self._end_processes(rest_s, self._made_room)
        self.discard()
        self._waiting_since, self._granted_s, self._some_die = None, 0.0, True
        self._patience_s *= 2  # the dying need the processor as well, and a host may give little of it

    def _let_them_die(self, until: float) -> None:
        """Once it is seen that many do, the last of them is waited for as well; not so those that live on."""
        enough, least, fell_at = FEW_THREADS, math.inf, 0.0
        while (now := time.monotonic()) < until:
            running, every = threads()
            if every < least:
                least, fell_at = every, now
            if running <= enough or now > fell_at + STEADY_S:
                break
            enough = QUIET_THREADS
            time.sleep(RETRY_S)
        self._some_die = False

    def _leave_crowd(self, others: Sequence[int] = ()) -> None:
        """Beside many busy processes, dying or alive, the shell and what it starts from now on come first."""
        running, _ = threads()
        if running > FEW_THREADS:
            with contextlib.suppress(OSError, LauncherGone):  # there may be no memory; slow is better than nothing
                self._session.change_room([] if self.shell is None else [self.shell.process.pid, *others])

    def _is_ready(self, deadline: float) -> bool:
        shell = self.start()
        if shell is not None and shell.settled:
            return True
        if shell is not None and shell.settle(min(deadline, self._patience_ends())):
            return True
        if shell is not None and shell.process.wait(0) is not None:
            self.discard()
        return False

    def _others_run(self) -> bool:
        """Whether something stands in the shell's way; if not, the host is slow, and the end of all others no help."""
        _, every = threads()
        return self.shell is None or every > self._threads_before + FEW_THREADS

    def _has_the_processor(self) -> bool:
        """Whether the shell itself ran for most of its life: then nobody stands in its way, and the host gives little."""
        return self.shell is not None and self.shell.share_of_the_processor() >= MOST

    def _patience_ends(self) -> float:
        if self._waiting_since is None:
            self._waiting_since = time.monotonic()
        return self._waiting_since + self._patience_s + self._granted_s

    def _replace_if_ended(self) -> str:
        """A shell may have ended between two calls, at the hand of a background job."""
        if self.shell is None or not self.shell.settled or self.shell.process.wait(0) is None:
            return ""
        self.discard()
        return f"the shell had ended since the last call; {NEW_SHELL}; "
