"""One bash as the student: started, fed with commands through a pipe, and watched from outside.

The script of the shell is a named pipe. Bash reads a pipe byte by byte, so a pipe that has become empty means that bash
has read the last of what was sent; since a command is followed by an empty line, that is when it is back for its next
command. To be told of it, the pipe is made one page small (`watch_end`): then it is writable when it is empty and only then.
`state` asks for more evidence, because a command may read the script's
descriptor itself: bash must sleep in a read of that descriptor, and its own variables must say that nothing runs.
"""

from __future__ import annotations

import contextlib
import enum
import errno
import fcntl
import math
import os
import platform
import select
import time
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, TypeVar

from .aside import Aside, Stuck
from .process_table import FEW_THREADS, children_of, threads
from .shell_memory import BashMemory, NotBash
from .shell_pipes import F_SETPIPE_SZ, PipeDirectory, unread_bytes
from .wake import see_ends, wake

if TYPE_CHECKING:
    from .session import Session

__all__ = ["Shell", "State"]

_Answer = TypeVar("_Answer")

PAGE_BYTES = 4096  # the smallest pipe: one slot, so that it is writable when it is empty and only then
ARGV = ("/bin/bash", "--noprofile", "--norc", "bash")  # "bash" is the pipe's name, and so the name in messages
HOME = "/workdir"
OPENING = f"cd {HOME} 2>/dev/null || cd /\nunset OLDPWD\n\n".encode()
READ_CALL = {"x86_64": 0, "aarch64": 63}[platform.machine()]
MAX_PAUSE_S = 0.02
ASIDE_S = 0.1  # for a look that may have to wait
END_S = 0.3  # to be gone after a kill; among many dying it takes longer, and nobody waits for that
FIRST_FREE_FD = 3  # behind the three that every program has


class State(enum.Enum):
    """What a shell does at a moment."""

    READY = "waits for its next command"
    UNFINISHED = "waits for the rest of a command that was sent whole"
    BUSY = "does something"
    REPLACED = "is another program now (exec)"
    ENDED = "is gone"


class Shell:
    """A bash process. Call `settle` before the first command. OSError when none can be started."""

    def __init__(self, session: Session, pipes: PipeDirectory, aside: Aside):
        self._memory: BashMemory | None = None
        self.settled = False
        self._opened = False  # it has opened its script
        self._script_bytes = 0  # capacity of the script's pipe
        self.seen: dict[str, int] = {}  # bash's variables at the last look
        self._aside = aside
        self._stuck = False  # something was to be changed in it and may be at any moment
        self._jobs: frozenset[int] | None = None  # its children after the last call
        self.owes_report = False  # it was asked to say which of its jobs have ended, and has not come back yet
        self.dying: frozenset[int] = frozenset()  # children of which it has still to say that they were ended
        script = pipes.make(mode=0o644, name="bash")
        try:
            self.script_fd = os.open(script.path, os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            self.output_fd, write_fd = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
            os.set_blocking(write_fd, True)
            self._said = select.poll()
            self._said.register(self.output_fd, select.POLLIN)
            null_fd = os.open("/dev/null", os.O_RDONLY | os.O_CLOEXEC)
            try:
                # First: among two thousand busy processes its turn would come every few seconds.
                self.process = session.spawn(
                    ARGV, cwd=pipes.inside, stdin=null_fd, stdout=write_fd, stderr=write_fd, first=True
                )
                self._born = time.monotonic()
            finally:
                os.close(write_fd)
                os.close(null_fd)
        except BaseException:
            script.close()
            raise
        self._script = script

    def settle(self, deadline: float) -> bool:
        """Wait until bash has opened its script and is at home; False when it ended or `deadline` came first.

        Can be asked again.
        """
        if self.settled:
            return True
        if not self._opened:
            if self.wait_ready(deadline) is not State.READY:
                return False
            os.fchmod(self._script.fd, 0)  # the student can't open the script's pipe again by /proc/PID/fd
            self._script.close()
            self._opened = True
            try:
                self.send(OPENING)
            except BrokenPipeError:  # killed meanwhile
                return False
        self.settled = self.wait_ready(deadline) is State.READY
        return self.settled

    def send(self, data: bytes | memoryview) -> int:
        """Write to the script what fits, all of it as a rule. BrokenPipeError when no shell reads it any more.

        The pipe is made larger than what is sent: each byte read from a full pipe wakes whoever waits for room in it.
        """
        if self._script_bytes < len(data) + 2 * PAGE_BYTES:
            with contextlib.suppress(OSError):
                self._script_bytes = fcntl.fcntl(self.script_fd, F_SETPIPE_SZ, len(data) + 2 * PAGE_BYTES)
        return os.write(self.script_fd, data)

    def said(self) -> bytes:
        """What lies in its own output at this moment and no more, so that an endless writer can't hold the reader.

        Asked by poll first, which takes no lock: a process that splices into the pipe from an empty socket holds its lock
        for as long as it likes, and asking for the number of bytes would wait for it.
        """
        if not any(event & select.POLLIN for _, event in self._said.poll(0)):
            return b""
        return os.read(self.output_fd, unread_bytes(self.output_fd))

    def wait_ready(self, deadline: float) -> State:
        """Wait until it is at home or can't come any more; what it does then. Another program may become a shell at first."""
        pause_s = 0.0002
        over = {State.READY, State.ENDED} | ({State.REPLACED} if self.settled else set())
        while (state := self.state()) not in over and time.monotonic() < deadline:
            time.sleep(pause_s)
            pause_s = min(pause_s * 1.5, MAX_PAUSE_S)
        return state

    def watch_end(self) -> bool:
        """Make the script's pipe writable when it is empty and only then; False while more than a page is unread."""
        try:
            self._script_bytes = fcntl.fcntl(self.script_fd, F_SETPIPE_SZ, PAGE_BYTES)
        except OSError as error:
            if error.errno != errno.EBUSY:
                raise
            return False
        return True

    def state(self) -> State:
        """What the shell does now; only READY and UNFINISHED are proven, everything doubtful is BUSY."""
        try:
            sleeps_in, self.seen = self._beside_a_crowd(self._look)
            values = self.seen
        except Stuck:
            return State.BUSY if self.process.wait(0) is None else State.ENDED
        except NotBash:
            return State.ENDED if self.process.wait(0) is not None else State.REPLACED
        if self._stuck or sleeps_in != (READ_CALL, values["default_buffered_input"]):
            return State.BUSY
        if values["executing"] or values["parse_and_execute_level"]:
            return State.BUSY
        return State.UNFINISHED if values["current_command_line_count"] else State.READY

    def interrupt(self, pending: bool) -> None:
        """Set bash's flag of an interrupt that is to come, and have it end the command and not the shell; or take both back.

        NotBash when it is none. Stuck when that can't be done now: it may be at any later moment, so that no other command
        can be given to this shell, which is never READY again.
        """
        flags = ("interactive", "interrupt_state")

        def change() -> None:
            for flag in flags if pending else reversed(flags):
                self.set_variable(flag, int(pending))

        try:
            self._beside_a_crowd(change)
        except Stuck:
            self._stuck = True
            raise

    def wake(self) -> None:
        """Out of the system call that it sleeps in; not now, beside a crowd, if that is long in coming."""
        with contextlib.suppress(Stuck):
            self._beside_a_crowd(lambda: wake(self.process.pid))

    def _beside_a_crowd(self, ask: Callable[[], _Answer]) -> _Answer:
        """Who answers must not wait for a lock that bash holds, or waits for itself. Where few run none is held for long."""
        return ask() if threads()[0] <= FEW_THREADS else self._aside.ask(ask, ASIDE_S)

    def _look(self) -> tuple[tuple[int, int] | None, dict[str, int]]:
        sleeps_in = self._sleeps_in()
        return sleeps_in, self.variables()

    def _sleeps_in(self) -> tuple[int, int] | None:
        """The call that bash sleeps in for more of its script, None when it does something else.

        Looked at before its variables are: from an empty pipe bash wakes when we write and no sooner, so they stand still
        while they are read. Read while it runs they are of several moments, an old exit code beside the end of a command.
        The pipe is asked for its bytes only when bash seems to sleep in it, since that takes a lock.
        """
        sleeps_in = self._bash().blocked_call()
        if sleeps_in != (READ_CALL, self.seen.get("default_buffered_input")) or unread_bytes(self.script_fd):
            return None
        return self._bash().blocked_call()

    def variables(self) -> dict[str, int]:
        """Bash's own variables at this moment; NotBash when there are none."""
        return self._bash().read()

    def set_variable(self, name: str, value: int) -> None:
        """Change one of bash's own variables; NotBash when there are none."""
        self._bash().set(name, value)

    def share_of_the_processor(self) -> float:
        """How much of its life it ran, from 0 to 1. A host that gives the machine nothing meanwhile counts as running."""
        with contextlib.suppress(OSError), open(f"/proc/{self.process.pid}/schedstat") as file:
            return int(file.read().split()[0]) / 1e9 / max(time.monotonic() - self._born, 1e-3)
        return 0.0

    def can_open_nothing(self) -> bool:
        """Whether its own limit keeps the shell from opening the file of a redirection, and from saying so."""
        return self._soft_limit("Max open files") < FIRST_FREE_FD

    def can_fork(self) -> bool:
        """Whether its own limit leaves the shell another process; it tries for a quarter of a minute if not."""
        return self._soft_limit("Max processes") > 1

    def _soft_limit(self, name: str) -> float:
        try:
            with open(f"/proc/{self.process.pid}/limits") as file:
                soft = next(line[len(name) :].split()[0] for line in file if line.startswith(name))
        except (FileNotFoundError, ProcessLookupError):
            return math.inf
        return int(soft) if soft.isdigit() else math.inf

    def children(self) -> list[int]:
        """The processes that it has started and that have not ended."""
        return children_of(self.process.pid)

    def note_jobs(self) -> None:
        """Between two calls: what it has left running. A call that finds nothing noted has to ask for it."""
        self._jobs = frozenset(self.children())

    def take_jobs(self) -> frozenset[int]:
        """Its children from before the call that begins."""
        if self._jobs is None:
            self.note_jobs()
        jobs, self._jobs = self._jobs, None
        return jobs or frozenset()

    def others_say(self, pids: Iterable[int], deadline: float) -> bool:
        """Whether one of `pids` besides the shell has the shell's own output open, and what it says comes as the shell's.

        True as well when `deadline` came before that was known: what they have open is the student's choice.
        """
        output = f"pipe:[{os.fstat(self.output_fd).st_ino}]"
        for pid in pids:
            if pid != self.process.pid:
                for opened in _opened_by(pid):
                    if opened == output or time.monotonic() >= deadline:
                        return True
        return False

    def close(self) -> int:
        """Give everything back but the output's descriptor, which is returned: background jobs may still write there.

        Kills the shell; what it started lives on.
        """
        self.process.kill()
        self._script.close()
        os.close(self.script_fd)
        if self._memory is not None:
            self._memory.close()
        see_ends()
        self.process.wait(END_S)
        self.process.close()
        return self.output_fd

    def _bash(self) -> BashMemory:
        if self._memory is None:
            self._memory = BashMemory(self.process.pid)
        return self._memory


def _opened_by(pid: int) -> Iterator[str]:
    with contextlib.suppress(OSError):  # it has ended
        for fd in os.listdir(f"/proc/{pid}/fd"):
            with contextlib.suppress(OSError):
                yield os.readlink(f"/proc/{pid}/fd/{fd}")
