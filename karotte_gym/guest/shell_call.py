"""Runs one command in a shell that is at its prompt: sends it, collects its output, notices its end, ends it in time.

One thread, one poll. The command goes in as one compound command whose output is a named pipe of this call alone; no
word of the wrapping can be redefined by the student. What bash itself says (a trap, a failed redirection) comes by the
shell's own output and is added.
"""

from __future__ import annotations

import contextlib
import re
import select
import time
from collections.abc import Callable
from typing import NamedTuple

from .output import BoundedOutput
from .shell_foreground import Interruption
from .shell_memory import NotBash
from .shell_pipes import NamedPipe, ReadBuffer, unread_bytes
from .shell_process import Shell, State

__all__ = ["ShellCall", "Terms", "Verdict"]

PRESS_EVERY_S = 0.05
GIVE_UP_AFTER_S = 1.0  # after the deadline; only a process that can't be killed (stuck in the kernel) needs it
FIRST_PAUSE_S, MAX_PAUSE_S = 0.0001, 0.02  # between two looks at a shell that has read its script but is not back
LAST_WORDS_S = 0.03  # for ``>(filters)``, which the shell does not wait for, when somebody still holds the pipe
READING_S, READING_BYTE_S = 0.0008, 0.00001  # bash reads byte by byte: measured under emulation, some 6 us each
SAID_BYTES = 4096
FLOOD_PAUSE_S = 0.002
MIN_SKIP_BYTES = 32 * 1024
RECOVERY_S = 0.3  # for giving up half a command; else the shell is replaced
# A command of punctuation alone, which can't be redefined, and which makes bash wait for a process.
REPORT = b"( ((1)) )\n\n"
DYING_S = 1.0  # for the last of what a call ran to die, before the next is begun
REPORT_S = 0.4  # a fork under emulation takes a tenth of it; only what is left of the call's last second is spent
_ENDED_STATES = (State.READY, State.UNFINISHED, State.ENDED)
UNTOUCHED = 0x5EED  # an exit code that no command has: a syntax error puts its own in its place
SYNTAX_ERROR = 2  # bash's own exit code for it


class Verdict(NamedTuple):
    """How a call ended: the shell's state then, the command's exit code, and what became of the command."""

    state: State
    exit_code: int | None = None  # None when it was ended by us, or when the shell is stuck
    interrupted: bool = False  # ended by us
    refused: bool = False  # bash did not take it for a whole command, and ran none of it
    redirected: bool = True  # False: bash could not open the call's pipe, so that the command did not run
    crowded: bool = False  # it has more processes than can be ended one by one in time
    shares_output: bool = False  # a job writes where the shell itself does, and would write into later results


class Terms(NamedTuple):
    """What is the same for every attempt at a call."""

    limit_bytes: int
    uid: int  # of the student: nobody else's processes are signalled
    cancel_fd: int  # readable: somebody wants the call to end
    buffer: ReadBuffer
    before_ending: Callable[[list[int]], None]  # called once, with what the shell waits for, when a call is to be ended


class ShellCall:
    """One command. `pipe` None sends it without redirection, for a shell in which redirecting can't work.

    `plain`: the command is known to be whole. Another one is sent but for its last line end, with bash set to survive a
    syntax error as it does at a keyboard, and to run nothing, since at a keyboard the lines behind the error are commands
    of their own. When bash then waits for that line end it has parsed all the rest, and it is set back before it gets it
    and runs the command.
    """

    def __init__(self, shell: Shell, command: bytes, pipe: NamedPipe | None, terms: Terms, *, plain: bool):
        self.output = BoundedOutput(terms.limit_bytes)
        self.pipe_ended = False  # nobody writes to the call's pipe any more
        self._shell, self._pipe, self._terms = shell, pipe, terms
        self._tail = b"\n\n}" if pipe is None else b"\n\n} </dev/null >%s 2>&1" % pipe.seen_path.encode()
        self._held = b"" if plain else b"\n\n"
        self._exit_code_before = 0
        self._unsent = memoryview(b"{ %s%s%s" % (command, self._tail, b"\n\n" if plain else b" \\\n"))
        self._said = b""  # the shell's own output, while it is short
        self._ending = False  # what bash says while it is interrupted ("Terminated") is our doing
        self._watching = False  # the poll includes the script's pipe
        self._reading_s = 0.0  # what bash needs to read what was sent
        self._consumed = False  # the script's pipe was empty after all was sent, or has no reader
        self._poller = select.poll()

    def result(self) -> bytes:
        """The bounded output, without our own wrapping, which ``set -v`` shows."""
        return self.output.result().replace(self._tail + b" \\\n\n", b"\n").replace(self._tail + b"\n", b"\n")

    def run(self, deadline: float) -> Verdict:
        """Run it; returns at `deadline` plus a second at the latest. Being cancelled acts as the deadline does."""
        self._let_it_finish_its_report(deadline)
        jobs = self._shell.take_jobs()
        self._begin()
        interruption: Interruption | None = None
        pause_s, next_press = FIRST_PAUSE_S, 0.0
        while True:
            now = time.monotonic()
            if now >= deadline:
                if interruption is None:
                    interruption = Interruption(self._shell, jobs, self._terms.uid)
                    self._terms.before_ending(interruption.foreground())
                self._ending = self._pipe is not None
                if now >= next_press:
                    interruption.press()
                    next_press = now + PRESS_EVERY_S
                if interruption.too_many:
                    return self._finish(State.BUSY, interruption, now)
            if self._consumed or interruption is not None:
                state = self._shell.state()
                if self._held and interruption is None and state is State.UNFINISHED and not self._was_refused():
                    self._send_the_rest()
                    continue
                if state is State.ENDED or (state in _ENDED_STATES and not self._unsent):
                    return self._finish(state, interruption, deadline + GIVE_UP_AFTER_S)
                if now >= deadline + GIVE_UP_AFTER_S:
                    return self._finish(State.BUSY, interruption, now)
                wait_s, pause_s = pause_s, min(pause_s * 2, MAX_PAUSE_S)
            else:
                wait_s = deadline - now if self._watching else min(self._reading_s, deadline - now)
            if self._take_events(wait_s):
                deadline = min(deadline, now)
            if self.pipe_ended and not self._consumed and not self._unsent:
                self._consumed = True  # the command is over, or has closed its output: look
            elif not self._watching and not self._consumed and time.monotonic() >= now + wait_s:
                self._watch_end()

    def _let_it_finish_its_report(self, deadline: float) -> None:
        """What it says of an earlier call's jobs is nobody's business, and must not come in the midst of this one's output."""
        if self._shell.owes_report:
            self._shell.owes_report = self._shell.wait_ready(deadline) is not State.READY
        if self._shell.dying and not self._shell.owes_report:
            until = min(deadline, time.monotonic() + DYING_S)
            while self._shell.dying.intersection(self._shell.children()) and time.monotonic() < until:
                time.sleep(MAX_PAUSE_S)  # the dying need the processor
            self._shell.dying = frozenset()
            if self._shell.can_fork():
                _let_it_report(self._shell, deadline)

    def _begin(self) -> None:
        self._shell.said()  # said since the last call, and nobody's business any more
        with contextlib.suppress(NotBash):  # killed since the last call: `state` will tell
            self._shell.set_variable("line_number", 1)
            if self._held:
                self._exit_code_before = self._shell.variables()["last_command_exit_value"]
                self._shell.set_variable("last_command_exit_value", UNTOUCHED)
                self._shell.set_variable("interactive", 1)
                self._shell.set_variable("read_but_dont_execute", 1)
        self._poller.register(self._terms.cancel_fd, select.POLLIN)
        self._poller.register(self._shell.process.pidfd, select.POLLIN)
        self._poller.register(self._shell.output_fd, select.POLLIN)
        if self._pipe is not None:
            self._poller.register(self._pipe.fd, select.POLLIN)
        self._send()

    def _was_refused(self) -> bool:
        """Whether bash met an error on its way. It reads what is behind one as a command of its own, and waits for its end."""
        return self._shell.seen["last_command_exit_value"] != UNTOUCHED

    def _send_the_rest(self) -> None:
        with contextlib.suppress(NotBash):
            self._shell.set_variable("interactive", 0)
            self._shell.set_variable("read_but_dont_execute", 0)
            self._shell.set_variable("last_command_exit_value", self._exit_code_before)
        self._unsent, self._held = memoryview(self._held), b""
        self._consumed = False
        self._send()

    def _take_events(self, wait_s: float) -> bool:
        """Wait for something to happen and deal with it; True when the call was cancelled."""
        cancelled = False
        if wait_s < 0.001:  # poll would make a millisecond of it
            time.sleep(max(0.0, wait_s))
            wait_s = 0.0
        for fd, event in self._poller.poll(wait_s * 1000):
            if fd == self._shell.script_fd:
                self._script_is_empty(event)
            elif fd == self._terms.cancel_fd:
                cancelled = True
                self._poller.unregister(fd)
            elif fd == self._shell.process.pidfd:
                self._consumed = True
                self._poller.unregister(fd)
            else:
                self._read(fd)
        return cancelled

    def _script_is_empty(self, event: int) -> None:
        if self._unsent and not event & select.POLLERR:
            self._poller.unregister(self._shell.script_fd)
            self._send()
            return
        self._consumed = True
        self._watching = False
        self._poller.unregister(self._shell.script_fd)
        time.sleep(FIRST_PAUSE_S)  # bash has the last byte, but is not asleep again

    def _watch_end(self) -> None:
        """From now on the script's pipe tells when it is empty: at the cost of a wake-up for each byte that is left."""
        if self._shell.watch_end():
            self._watching = True
            self._poller.register(self._shell.script_fd, select.POLLOUT)

    def _send(self) -> None:
        self._watching, self._reading_s = False, READING_S + len(self._unsent) * READING_BYTE_S
        try:
            self._unsent = self._unsent[self._shell.send(self._unsent) :]
        except BrokenPipeError:
            self._consumed = True  # exec, or the end of the shell: `state` will tell
        except BlockingIOError:  # something is in the pipe that we did not write: a command of the student's
            return

    def _read(self, fd: int) -> None:
        said = fd == self._shell.output_fd
        if not said and self.output.total_bytes > self._terms.limit_bytes:
            self._skip_flood(fd)
        data = self._terms.buffer.read(fd)
        if not data:
            self.pipe_ended |= not said
            self._poller.unregister(fd)
        elif not said:
            self.output.feed(data)
        elif not self._ending:
            self._take_said(bytes(data))

    def _skip_flood(self, fd: int) -> None:
        """What will be cut is not even read; a moment's rest lets the writer fill the pipe instead of waking us."""
        time.sleep(FLOOD_PAUSE_S)
        skippable = self.output.skippable(unread_bytes(fd))
        if skippable >= MIN_SKIP_BYTES:
            self.output.skip(self._terms.buffer.throw_away(fd, skippable))

    def _finish(self, state: State, interruption: Interruption | None, last_moment: float) -> Verdict:
        if interruption is not None and state is State.READY:
            interruption.over()
        if state is State.UNFINISHED or (self._held and state is State.READY):
            return self._refuse(state, interrupted=interruption is not None)
        if self._pipe is not None:
            self._read_last_words(self._pipe.fd)
        if interruption is not None:
            if state is State.READY and self._shell.can_fork():
                _let_it_report(self._shell, min(time.monotonic() + REPORT_S, last_moment))
                self._shell.dying = frozenset(interruption.ended.intersection(self._shell.children()))
            return Verdict(state, interrupted=True, crowded=interruption.too_many)
        self._take_said(self._shell.said())
        if state is State.READY:
            code = self._shell.seen["last_command_exit_value"]
            return Verdict(state, code, redirected=code != 1 or not self._redirection_failed())
        return Verdict(state, self._shell.process.wait(0) if state is State.ENDED else None)

    def _refuse(self, state: State, *, interrupted: bool) -> Verdict:
        """Bash did not take it: bring it back to its prompt and take the rest of the command out of its way."""
        if state is State.UNFINISHED:
            state = _give_up_half_a_command(self._shell)
        with contextlib.suppress(NotBash):
            self._shell.set_variable("interactive", 0)
            self._shell.set_variable("read_but_dont_execute", 0)
            self._shell.seen["read_but_dont_execute"] = 0  # the student never set it
            self._shell.set_variable("interrupt_state", 0)
            self._shell.set_variable("last_command_exit_value", SYNTAX_ERROR)
        self.pipe_ended = True  # it was never opened
        self._take_said(self._shell.said())
        return Verdict(state, None if interrupted else SYNTAX_ERROR, interrupted, refused=True)

    def _read_last_words(self, fd: int) -> None:
        """What lies in the call's pipe, and what comes within a moment when somebody still has it open."""
        if self.pipe_ended:
            return
        poller = select.poll()
        poller.register(fd, select.POLLIN)
        deadline = time.monotonic() + LAST_WORDS_S
        while not self.pipe_ended and (left_s := deadline - time.monotonic()) > 0 and poller.poll(left_s * 1000):
            data = self._terms.buffer.read(fd)
            self.output.feed(data)
            self.pipe_ended = not data

    def _take_said(self, data: bytes) -> None:
        if not data:
            return
        self._said = (self._said + data[:SAID_BYTES])[:SAID_BYTES]
        self.output.feed(data)

    def may_have_lost_its_output(self, verdict: Verdict) -> bool:
        """Whether it looks as if bash had no descriptor to open the call's pipe with, or to take its own output back."""
        if not self.output.total_bytes:
            return verdict.exit_code == 1
        return self.output.total_bytes < SAID_BYTES and self.output.result().endswith(b": Bad file descriptor\n")

    def _redirection_failed(self) -> bool:
        """Whether all that came is bash's own complaint about our redirection, so that nothing was run.

        Restricted shells and those without free descriptors can't redirect. Who prints the same is run twice.
        """
        if self._pipe is None or self.output.total_bytes != len(self._said):
            return False
        places = rb"%s|/dev/null|redirection error" % re.escape(self._pipe.seen_path.encode())
        return re.fullmatch(rb"(bash: (line \d+: )?(%s): [^\n]*\n)+" % places, self._said) is not None


def _let_it_report(shell: Shell, deadline: float) -> None:
    """Have bash say now which of its jobs we ended: it would say so in the midst of the next command's output."""
    with contextlib.suppress(BrokenPipeError, BlockingIOError):
        shell.send(REPORT)
        shell.owes_report = shell.wait_ready(deadline) is not State.READY


def _give_up_half_a_command(shell: Shell) -> State:
    """Interrupt bash in the middle of its parser, as a keyboard would; READY when it worked."""
    with contextlib.suppress(NotBash, BrokenPipeError, BlockingIOError):
        shell.set_variable("interactive", 1)
        shell.set_variable("read_but_dont_execute", 1)  # not PROMPT_COMMAND either
        shell.set_variable("interrupt_state", 1)
        shell.send(b"\n")  # ends the read that it sleeps in
        return shell.wait_ready(time.monotonic() + RECOVERY_S)
    return State.ENDED
