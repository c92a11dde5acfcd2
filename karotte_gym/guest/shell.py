"""The student's persistent shell: the ``bash`` call. Always answers in time, and says truly what happened.

The parts: `shell_supply` (there is one), `shell_process` (one bash, fed and watched from outside), `shell_call` (one
command in it), `shell_syntax` (what is sent at all), `shell_foreground` (the end of what takes too long), `shell_pipes`
and `shell_memory`.
"""

from __future__ import annotations

import contextlib
import functools
import os
import re
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from . import places
from .calls import Call, Handler, Machine, Refused
from .limits_watchdog import remove_memory_objects
from .output import BoundedOutput
from .processes import end_processes
from .shell_call import SYNTAX_ERROR, ShellCall, Terms, Verdict
from .shell_memory import NotBash
from .shell_pipes import KEPT_PIPE_BYTES, Drain, NamedPipe, PipeDirectory, ReadBuffer
from .shell_process import Shell, State
from .shell_supply import NEW_SHELL, ShellSupply
from .shell_syntax import does_harm_when_wrong, is_empty, is_plain, must_be_asked_about, syntax_error
from .spawning import CallFailed, LauncherGone
from .wire import MAX_BODY_BYTES

if TYPE_CHECKING:
    from .session import Session

__all__ = ["METHODS", "Answer", "ShellSession", "shell_of", "start"]

MAX_TIMEOUT_S = 24 * 3600.0
MAX_OUTPUT_BYTES = MAX_BODY_BYTES - 4096  # room for the line that says how much was cut
WORDS_TIMEOUT_S = 2.0  # for the words of an error that is known
NOTHING = b"( ((1)) )"  # of punctuation alone, which can't be redefined
SMALL_BYTES = 4096  # of an output that nobody reads
LOOK_S = 0.3  # beyond a call's deadline, for who else writes where the shell does
CROWD_REST_S = 0.2  # what is left of a call's last second
START_S, START_PAUSE_S = 10.0, 0.01
CANCEL_TIMEOUT_S = 3.0  # a cancelled call needs a second to end what it runs
KEPT_HOUSE_S = 30.0  # the longest that a call waits for what is done between two of them; milliseconds as a rule
TURN_PAUSE_S = 0.01
_ASKS_FOR_EXTGLOB = re.compile(rb"(?:^|[;&{(])[ \t]*shopt[ \t]+-s[ \t][^\n;&|({]*\bextglob\b", re.MULTILINE)


@dataclass
class Answer:
    """What a call of the shell is answered."""

    output: bytes = b""
    exit_code: int | None = None
    timed_out: bool = False
    cut_bytes: int = 0
    note: str = ""


class ShellSession:
    """The shell of one session, replaced whenever it ends. One call at a time: a second one cancels the first."""

    def __init__(self, session: Session, pipes: PipeDirectory, end_processes: Callable[[float, bool], None]):
        self._session, self._pipes = session, pipes
        self._drain, self._buffer = Drain(), ReadBuffer()
        self._supply = ShellSupply(session, pipes, self._drain, end_processes)
        self._spare: NamedPipe | None = None  # of a call that has ended: making one takes a tenth of a short call
        self._lock = threading.Lock()
        self._keeps_house = self._is_called = False  # what who has the lock is for
        self._asked_to_end = False  # perhaps, by `_cancel_fd`
        self._cancel_fd = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        weakref.finalize(self, os.close, self._cancel_fd)  # not at `close`: a call that was cancelled may still look

    def run(self, command: str, *, timeout_s: float, restart: bool, limit_bytes: int) -> Answer:
        """Run a command; answers within `timeout_s` plus a second, whatever the command is."""
        deadline = time.monotonic() + timeout_s
        with self._turn():
            if restart:
                self._supply.discard()
            if is_empty(command):
                started = self._supply.start() is not None
                note = "a new shell was started" if started else "no new shell could be started yet"
                return Answer(exit_code=0 if started else None, note=note if restart or not started else "")
            return self._run(command, deadline, limit_bytes)

    def start(self) -> None:
        """Bring the shell to its prompt ahead of the first command; when one comes it goes on from where this is.

        Several threads may ask at once: each returns when it is there, when a call has come, or after `START_S`.
        """
        until = time.monotonic() + START_S
        while time.monotonic() < until:
            with self._between_calls() as free:
                if free and (self._supply.ready(time.monotonic())[0] is not None or self._supply.shell is None):
                    return  # one that could not be started, or has ended with its session, is the next call's business
            if not free and self._is_called:
                return
            time.sleep(START_PAUSE_S)

    def make_ready(self) -> None:
        """Between two calls: what the next one would have to wait for."""
        with self._between_calls() as free:
            if free and self._supply.shell is not None:
                self._supply.shell.note_jobs()
            if free and self._spare is not None:
                self._spare = self._next_pipe()

    def inner_pid(self) -> int | None:
        """The shell's number in the student's own PID namespace; None when there is none that is at home yet."""
        shell = self._supply.shell
        if shell is not None and shell.settled:
            with contextlib.suppress(OSError), open(f"/proc/{shell.process.pid}/status") as file:
                for line in file:
                    if line.startswith("NSpid:"):
                        return int(line.split()[-1])
        return None

    def close(self) -> None:
        """End the shell and forget its pipes."""
        with self._turn():
            self._supply.close()
            if self._spare is not None:
                self._spare.close()
                self._spare = None
            self._drain.close()

    def _run(self, command: str, deadline: float, limit_bytes: int) -> Answer:
        shell, lost = self._supply.ready(deadline)
        if shell is None:
            if self._supply.shell is not None:
                return Answer(timed_out=True, note=f"{lost}no shell was ready in time, so the command was not run")
            return Answer(note=f"{lost}no shell could be started; too many processes, or no memory, may be the reason")
        data, plain = command.encode("utf-8", "surrogatepass"), _is_plain(shell, command)
        asks_for_extglob = _ASKS_FOR_EXTGLOB.search(data) is not None and not shell.seen.get("extended_glob")
        error, needs_extglob = None, False
        if not plain and must_be_asked_about(command):
            try:
                error, needs_extglob = self._ask_first(shell, data, deadline, asks_for_extglob)
            except TimeoutError:
                return Answer(timed_out=True, note=f"{lost}its syntax could not be checked in time, so the command was not run")
        if error:
            return Answer(_not_run(error)[:limit_bytes], SYNTAX_ERROR, note=lost.rstrip("; "))
        call, verdict = self._try(shell, data, deadline, limit_bytes, plain=plain, extglob=needs_extglob)
        if verdict.refused and verdict.state is State.READY and asks_for_extglob and not needs_extglob:
            call, verdict = self._try(shell, data, deadline, limit_bytes, plain=False, extglob=True)
        if verdict.refused and verdict.interrupted:
            call.output = BoundedOutput(limit_bytes)  # what bash says of half a command is not true of the whole
            lost += "the command had not been read to its end and was not run; "
        elif verdict.refused:
            call.output = self._words_of_refusal(call, data, deadline, limit_bytes)
            if verdict.state is State.READY and does_harm_when_wrong(command):  # the shell and its check did not agree
                self._supply.discard()
                lost += f"the command may have harmed the shell; {NEW_SHELL}; "
            elif verdict.state is State.READY and self._understands_nothing(shell, deadline):
                self._supply.discard()
                lost += f"the shell takes no other command either; {NEW_SHELL}; "
        return self._answer(shell, call, verdict, lost)

    def _ask_first(self, shell: Shell, data: bytes, deadline: float, asks_for_extglob: bool) -> tuple[bytes | None, bool]:
        """The error in a command, if any, and whether it is none with the option that the command itself sets."""
        try:
            extglob = bool(shell.variables()["extended_glob"])
        except NotBash:
            return None, False
        error = syntax_error(self._session, data, deadline, extglob=extglob)
        if error and asks_for_extglob:
            error = syntax_error(self._session, data, deadline, extglob=True)
            return error, not error
        return error, False

    def _words_of_refusal(self, call: ShellCall, data: bytes, deadline: float, limit_bytes: int) -> BoundedOutput:
        """Why a command was not run: in the words of the check, else in those of the shell itself."""
        said = None
        with contextlib.suppress(TimeoutError):
            said = syntax_error(self._session, data, min(deadline, time.monotonic() + WORDS_TIMEOUT_S), extglob=False)
        words = BoundedOutput(limit_bytes)
        words.feed(_not_run(said or call.result()))
        return words

    def _understands_nothing(self, shell: Shell, deadline: float) -> bool:
        """Whether its aliases keep the shell from taking any command: one may stand for the brace that ours begin with."""
        if not shell.seen["expand_aliases"]:
            return False
        _, verdict = self._call(shell, NOTHING, deadline, SMALL_BYTES, plain=False)
        with contextlib.suppress(NotBash):
            shell.set_variable("last_command_exit_value", SYNTAX_ERROR)  # of the command that was asked for
        return verdict.state is not State.READY or (verdict.refused and not verdict.interrupted)

    def _try(
        self, shell: Shell, command: bytes, deadline: float, limit_bytes: int, *, plain: bool, extglob: bool
    ) -> tuple[ShellCall, Verdict]:
        """`extglob`: bash reads a call as one command, so that an option set by its first line comes too late for the next."""
        if extglob:
            with contextlib.suppress(NotBash):
                shell.set_variable("extended_glob", 1)
        call, verdict = self._call(shell, command, deadline, limit_bytes, plain=plain)
        if extglob and verdict.refused:
            with contextlib.suppress(NotBash):
                shell.set_variable("extended_glob", 0)
        return call, verdict

    def _call(
        self, shell: Shell, command: bytes, deadline: float, limit_bytes: int, *, plain: bool
    ) -> tuple[ShellCall, Verdict]:
        pipe = self._next_pipe()
        pipe.used = True
        terms = Terms(limit_bytes, self._session.uid, self._cancel_fd, self._buffer, self._supply.leave_the_dying)
        call = ShellCall(shell, command, pipe, terms, plain=plain)
        try:
            verdict = self._play(call, deadline)
        finally:
            self._let_go(pipe, ended=call.pipe_ended)
        if verdict.redirected:
            return call, verdict
        call = ShellCall(shell, command, None, terms, plain=plain)
        verdict = self._play(call, deadline)
        return call, verdict._replace(shares_output=shell.others_say(self._session.pids(), deadline + LOOK_S))

    def _play(self, call: ShellCall, deadline: float) -> Verdict:
        try:
            return call.run(deadline)
        except BaseException:
            self._supply.discard()  # nobody knows what it is at, so it gets no other command
            raise

    def _next_pipe(self) -> NamedPipe:
        spare, self._spare = self._spare, None
        return self._pipes.make_for_call(spare)

    def _let_go(self, pipe: NamedPipe, *, ended: bool) -> None:
        """Background jobs may still write to it; what they write is nobody's."""
        if ended:
            self._spare = pipe
            return
        pipe.forget_name()
        pipe.resize(KEPT_PIPE_BYTES)
        self._drain.adopt(pipe.fd)

    def _answer(self, shell: Shell, call: ShellCall, verdict: Verdict, lost: str) -> Answer:
        cancelled = verdict.interrupted and self._was_cancelled()
        note = _why_replaced(shell, call, verdict)
        if verdict.crowded:
            self._supply.make_room(CROWD_REST_S)
            note += "; the next call has a new shell"  # begun now, among the dying, it would keep this answer waiting
        elif note:
            self._supply.discard()
            note += f"; {NEW_SHELL}" if self._supply.start() is not None else "; no new shell could be started yet"
        if cancelled:
            note = f"cancelled by a later call; {note}".rstrip("; ")
        return Answer(
            output=call.result(),
            exit_code=verdict.exit_code,
            timed_out=verdict.interrupted and not cancelled,
            cut_bytes=call.output.cut_bytes,
            note=(lost + note).rstrip("; "),
        )

    @contextlib.contextmanager
    def _turn(self) -> Iterator[None]:
        """Holds the lock; a call that has it is cancelled. Refused when it can't be ended."""
        if not self._lock.acquire(blocking=False):
            self._wait_for_turn()
        try:
            self._is_called = True
            if self._asked_to_end:
                self._asked_to_end = False
                self._was_cancelled()  # asked of whoever had the lock
            yield
        finally:
            self._is_called = False
            self._lock.release()

    def _wait_for_turn(self) -> None:
        asked, now = False, time.monotonic()
        give_up, longest = now + CANCEL_TIMEOUT_S, now + KEPT_HOUSE_S
        while not self._lock.acquire(timeout=TURN_PAUSE_S):
            now = time.monotonic()
            if self._keeps_house and now < longest:  # no command, so nothing to cancel: it takes what the host needs for it
                give_up = now + CANCEL_TIMEOUT_S
            elif now >= give_up:
                raise Refused("timeout", "an earlier command can't be ended")
            elif not asked:
                os.eventfd_write(self._cancel_fd, 1)
                self._asked_to_end = asked = True

    @contextlib.contextmanager
    def _between_calls(self) -> Iterator[bool]:
        """For work that no call waits for: whether nobody has the turn. A call that comes meanwhile waits for it."""
        if not self._lock.acquire(blocking=False):
            yield False
            return
        self._keeps_house = True
        try:
            yield True
        finally:
            self._keeps_house = False
            self._lock.release()

    def _was_cancelled(self) -> bool:
        """Whether a later call asked for an end; asks once."""
        try:
            return os.eventfd_read(self._cancel_fd) > 0
        except BlockingIOError:
            return False


def _not_run(said: bytes) -> bytes:
    """A warning alone, of a here-document without an end for instance, reads as if the command had been run."""
    return said if said and b"warning: " not in said else said + b"bash: the command is unfinished and was not run\n"


def _is_plain(shell: Shell, command: str) -> bool:
    """An alias can make any word the beginning of something else."""
    return is_plain(command) and not shell.seen.get("expand_aliases")


def _why_replaced(shell: Shell, call: ShellCall, verdict: Verdict) -> str:
    """What keeps the shell from being used for another call; "" when nothing does."""
    if verdict.crowded:
        return "the processes were too many to be ended one by one, so all of the session were ended"
    if verdict.state is State.UNFINISHED:
        return "the shell kept waiting for the rest of the command"
    if verdict.state is State.ENDED and not verdict.interrupted:
        return f"the shell ended with exit code {verdict.exit_code}"
    if verdict.state is not State.READY:
        return "the command could not be ended without the shell"
    if verdict.shares_output:
        return "a job writes into the results of a shell that can't redirect its output"
    if call.may_have_lost_its_output(verdict) and shell.can_open_nothing():
        return "the shell may open no files and can't say anything any more"
    if shell.seen["read_but_dont_execute"]:
        return "option n makes the shell read commands without running them"
    return ""


def shell_of(machine: Machine) -> ShellSession:
    """The shell of the present session. Refused when there is no session."""
    session = machine.session
    if session is None:
        raise Refused("no-session", "no session is running")
    with _MAKING:
        known: tuple[object, ShellSession] | None = machine.state.get("shell")
        if known is not None and known[0] is session:
            return known[1]
        if known is not None:
            known[1].close()
        pipes = PipeDirectory(places.PIPES, places.PIPES_SEEN)
        shell = ShellSession(session, pipes, functools.partial(_make_room, machine, session))
        machine.state["shell"] = (session, shell)
        return shell


_MAKING = threading.Lock()


def _make_room(machine: Machine, session: Session, rest_s: float, memory_too: bool) -> None:
    end_processes(machine, session.uid, rest_s)
    if memory_too:
        with contextlib.suppress(OSError, CallFailed, LauncherGone):  # what is left is for the next time
            session.call_as_root(remove_memory_objects, timeout_s=max(rest_s, 1.0))


def start(machine: Machine) -> None:
    """Start the shell of a session that has just begun: bash gets to its prompt while the student thinks."""
    with contextlib.suppress(Refused):  # the session has ended already
        shell_of(machine).start()


def _bash(machine: Machine, call: Call) -> tuple[dict[str, Any], bytes]:
    params = call.params
    command, timeout_s, restart = params.get("command"), params.get("timeout_s"), params.get("restart")
    limit_bytes = params.get("max_output_bytes", 65536)
    if not isinstance(command, str) or "\0" in command:
        raise Refused("bad-params", "command must be text without NUL")
    if isinstance(timeout_s, bool) or not isinstance(timeout_s, int | float) or not 0 < timeout_s <= MAX_TIMEOUT_S:
        raise Refused("bad-params", f"timeout_s {timeout_s!r:.50} must be above 0 and at most {MAX_TIMEOUT_S:.0f}")
    if isinstance(limit_bytes, bool) or not isinstance(limit_bytes, int) or limit_bytes < 1:
        raise Refused("bad-params", f"max_output_bytes {limit_bytes!r:.50} must be a positive whole number")
    began = time.monotonic()
    shell = shell_of(machine)
    call.afterwards.append(shell.make_ready)
    answer = shell.run(command, timeout_s=timeout_s, restart=bool(restart), limit_bytes=min(limit_bytes, MAX_OUTPUT_BYTES))
    facts = {
        "exit_code": answer.exit_code,
        "timed_out": answer.timed_out,
        "cut_bytes": answer.cut_bytes,
        "duration_s": time.monotonic() - began,
        "note": answer.note,
    }
    return facts, answer.output


def _wait_for_shell(machine: Machine, _call: Call) -> tuple[dict[str, Any], bytes]:
    shell_of(machine).start()
    return {}, b""


METHODS: dict[str, Handler] = {"bash": _bash, "shell_wait": _wait_for_shell}
