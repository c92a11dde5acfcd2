"""For scoring scripts: read a submitted file, or run it as an unprivileged user, apart from all that grades it.

    from karotte_grading import SubmissionUnusable, read_submitted, run_as_student, start_as_student

    try:
        answer = read_submitted(f"{submission_dir}/workdir/answer.txt", max_bytes=64)
    except SubmissionUnusable as reason: ...  # not there, a link, a FIFO, a directory, too long

    outcome = run_as_student(["/usr/bin/python3", "/submission/workdir/solve.py"], stdin=b"3 4", timeout_s=5)
    if outcome.exit_code == 0 and outcome.stdout == b"7": ...

    with start_as_student([...]) as program:  # for code that answers questions and is timed
        program.ask(end=b"ready\\n")
        reply = program.ask(b"3 4\\n")
        if reply.data == b"7\\n": ...

The code runs in its own PID, mount, network and IPC namespaces, under a system call filter, in a root directory that
holds the system's programs, what was handed in (read-only) and an empty /tmp. It does not see root_data, the result
file, the scoring code or any process but its own. Time is measured here, outside, by the monotonic clock; whatever the
code says about time is its own opinion. When the call or the block is left, everything that it started is dead.
"""

from __future__ import annotations

import math
import os
import selectors
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from karotte_confiner import Confined, Group
from karotte_submitted import SubmissionUnusable, read_submitted

__all__ = ["Outcome", "Program", "Reply", "SubmissionUnusable", "read_submitted", "run_as_student", "start_as_student"]

MIB = 1024 * 1024
READ_BYTES = 65536


@dataclass(frozen=True, slots=True)
class Outcome:
    """What the code did. `exit_code` is None when its time was up, 128+n when a signal ended it."""

    stdout: bytes
    stderr: bytes
    exit_code: int | None
    timed_out: bool
    cut_bytes: int  # output beyond the bound, thrown away
    duration_s: float  # from just before the program starts, by a clock that it can't touch


@dataclass(frozen=True, slots=True)
class Reply:
    """What a program said when asked. `complete`: up to and including the end that was waited for."""

    data: bytes
    complete: bool
    duration_s: float  # from just before the question was sent, by a clock that it can't touch
    cpu_s: float | None  # processor time of all its processes meanwhile; None where there are no control groups


def run_as_student(
    argv: Sequence[str],
    *,
    stdin: bytes = b"",
    env: Mapping[str, str] | None = None,
    cwd: str = "/tmp",
    readable: Sequence[str] = ("/submission",),
    timeout_s: float = 10.0,
    memory_bytes: int = 256 * MIB,
    process_count: int = 64,
    max_output_bytes: int = MIB,
) -> Outcome:
    """Run one program (absolute path) and return what it did. RuntimeError when it could not be confined."""
    with start_as_student(
        argv,
        env=env,
        cwd=cwd,
        readable=readable,
        lifetime_s=timeout_s,
        memory_bytes=memory_bytes,
        process_count=process_count,
    ) as program:
        return program._run(stdin, timeout_s, max_output_bytes)


def start_as_student(
    argv: Sequence[str],
    *,
    env: Mapping[str, str] | None = None,
    cwd: str = "/tmp",
    readable: Sequence[str] = ("/submission",),
    lifetime_s: float = 60.0,
    memory_bytes: int = 256 * MIB,
    process_count: int = 64,
    quiet: bool = False,
) -> Program:
    """Start one program (absolute path) to `Program.ask`; use it in a ``with`` block.

    `lifetime_s` bounds its processor time; how long an answer may take is said with each question. A `quiet` one may have
    neither timers nor sockets (EPERM), so that nothing of it goes on in the kernel while it is frozen. RuntimeError when it
    could not be confined.
    """
    if not argv or not argv[0].startswith("/"):
        raise ValueError("argv must begin with the absolute path of a program")
    config = {
        "argv": list(argv),
        "env": {"PATH": "/usr/bin:/bin", "HOME": "/tmp", "LANG": "C.UTF-8", **(env or {})},
        "cwd": cwd,
        "readable": [path for path in readable if os.path.exists(path)],
        "memory_bytes": memory_bytes,
        "process_count": process_count,
        "cpu_s": math.ceil(lifetime_s) + 1,
        "quiet": quiet,
    }
    return Program(Confined(config, Group.make(memory_bytes, process_count)))


class Program:
    """A confined program that runs. Leaving its ``with`` block kills it and all that it started."""

    def __init__(self, confined: Confined):
        self._confined = confined
        self._started = time.monotonic()
        os.set_blocking(confined.stdin, False)

    def __enter__(self) -> Program:
        return self

    def __exit__(self, *exc: object) -> None:
        self._confined.close()

    def ask(
        self, question: bytes = b"", *, end: bytes = b"\n", timeout_s: float = 10.0, max_bytes: int = MIB, last: bool = False
    ) -> Reply:
        """Send `question` and return what it writes to standard output up to `end`; `last` closes its standard input.

        A program that says nothing in time, ends, or says more than `max_bytes` has not answered: `complete` is false.
        Its standard error is thrown away.
        """
        group = self._confined.group
        used_s = 0.0 if group is None else group.cpu_s()
        begun = time.monotonic()
        exchange = _Exchange(self._confined, question, max_bytes, end=end, close_stdin=last)
        exchange.run(begun + timeout_s)
        duration_s = time.monotonic() - begun
        cpu_s = None if group is None else group.cpu_s() - used_s
        data = bytes(exchange.stdout)
        return Reply(data, data.endswith(end) and not exchange.cut_bytes, duration_s, cpu_s)

    def cpu_s(self) -> float:
        """Processor time of it and all its children since its start, kernel's work for them included. RuntimeError where
        there are no control groups."""
        return self._group().cpu_s()

    def freeze(self) -> None:
        """Stop it and all its children until `thaw`: what is not asked can't work in the background. What it has set off in
        the kernel goes on (timers, a network's queues) unless it is `quiet`, at the expense of whoever is timed meanwhile.
        RuntimeError where there are no control groups."""
        self._group().freeze()

    def thaw(self) -> None:
        """Let it go on."""
        self._group().thaw()

    def _group(self) -> Group:
        if self._confined.group is None:
            raise RuntimeError("only in a machine with control groups can a program be frozen and its time be told")
        return self._confined.group

    def _run(self, stdin: bytes, timeout_s: float, max_output_bytes: int) -> Outcome:
        exchange = _Exchange(self._confined, stdin, max_output_bytes, close_stdin=True)
        timed_out = not exchange.run(self._started + timeout_s)
        self._confined.kill()
        duration_s = time.monotonic() - self._started
        code = None if timed_out else self._confined.exit_code()
        return Outcome(bytes(exchange.stdout), bytes(exchange.stderr), code, timed_out, exchange.cut_bytes, duration_s)


class _Exchange:
    """Feeds standard input and takes output, neither of which may make the caller wait longer than the deadline."""

    def __init__(self, confined: Confined, stdin: bytes, max_output_bytes: int, *, end: bytes | None = None, close_stdin: bool):
        self._confined = confined
        self._rest = memoryview(stdin)
        self._room = max_output_bytes
        self._end = end
        self._close_stdin = close_stdin
        self.stdout, self.stderr, self.cut_bytes = bytearray(), bytearray(), 0
        self._selector = selectors.DefaultSelector()
        self._selector.register(confined.stdout, selectors.EVENT_READ, self.stdout)
        self._selector.register(confined.stderr, selectors.EVENT_READ, self.stderr)
        if confined.stdin >= 0 and (stdin or close_stdin):
            self._selector.register(confined.stdin, selectors.EVENT_WRITE)

    def run(self, deadline: float) -> bool:
        """False when the time was up. Ends with the answer, or when all output has ended: the confining processes hold
        it to the end."""
        with self._selector as selector:
            while any(key.events == selectors.EVENT_READ for key in selector.get_map().values()):
                remaining_s = deadline - time.monotonic()
                if remaining_s <= 0:
                    return False
                for key, _ in selector.select(remaining_s):
                    if key.data is None:
                        self._write()
                    else:
                        self._read(key)
                if self._end is not None and (self.stdout.endswith(self._end) or self.cut_bytes):
                    break
        return True

    def _write(self) -> None:
        stdin = self._confined.stdin
        try:
            if self._rest:
                self._rest = self._rest[os.write(stdin, self._rest[:READ_BYTES]) :]
        except BlockingIOError:
            return
        except BrokenPipeError:
            self._rest = memoryview(b"")
        if not self._rest:
            self._selector.unregister(stdin)
            if self._close_stdin:
                os.close(stdin)
                self._confined.stdin = -1

    def _read(self, key: selectors.SelectorKey) -> None:
        data = os.read(key.fd, READ_BYTES)
        if not data:
            self._selector.unregister(key.fileobj)
        kept = data[: 0 if self._end is not None and key.data is self.stderr else self._room]
        if key.data is self.stdout or self._end is None:
            self._room -= len(kept)
            self.cut_bytes += len(data) - len(kept)
        key.data.extend(kept)
