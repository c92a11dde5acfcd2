"""For scoring scripts: run submitted code as an unprivileged user, apart from everything that is being graded with.

    from karotte_grading import run_as_student

    outcome = run_as_student(["/usr/bin/python3", "/submission/workdir/solve.py"], stdin=b"3 4", timeout_s=5)
    if outcome.exit_code == 0 and outcome.stdout == b"7": ...

The code runs in its own PID, mount, network and IPC namespaces in a root directory that holds the system's programs,
what was handed in (read-only) and an empty /tmp. It does not see root_data, the result file, the scoring code or any
process but its own. Time is measured here, outside, by the monotonic clock; whatever the code says about time is its
own opinion. When the call returns, everything it started is dead.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import select
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

__all__ = ["Outcome", "run_as_student"]

MIB = 1024 * 1024
CONFINED = os.path.join(os.path.dirname(os.path.abspath(__file__)), "confined.py")
GROUP = "/sys/fs/cgroup/grading"
READ_BYTES = 65536
READY = b"ready\n"
SETUP_TIMEOUT_S = 60.0  # takes a fraction of a second, also emulated


@dataclass(frozen=True, slots=True)
class Outcome:
    """What the code did. `exit_code` is None when its time was up, 128+n when a signal ended it."""

    stdout: bytes
    stderr: bytes
    exit_code: int | None
    timed_out: bool
    cut_bytes: int  # output beyond the bound, thrown away
    duration_s: float  # from just before the program starts, by a clock that it can't touch


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
    if not argv or not argv[0].startswith("/"):
        raise ValueError("argv must begin with the absolute path of a program")
    with contextlib.ExitStack() as stack:
        config = {
            "argv": list(argv),
            "env": {"PATH": "/usr/bin:/bin", "HOME": "/tmp", "LANG": "C.UTF-8", **(env or {})},
            "cwd": cwd,
            "readable": [path for path in readable if os.path.exists(path)],
            "memory_bytes": memory_bytes,
            "process_count": process_count,
            "cpu_s": math.ceil(timeout_s) + 1,
            "group": _make_group(stack, memory_bytes, process_count),
        }
        status, report = os.pipe()
        stack.callback(os.close, status)
        process = subprocess.Popen(
            [sys.executable, "-I", "-S", "-B", CONFINED, json.dumps(config), str(report)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8"},
            cwd="/",
            pass_fds=[report],
            start_new_session=True,
        )
        os.close(report)
        stack.enter_context(process)
        stack.callback(_kill, process)
        exchange = _Exchange(process, stdin, max_output_bytes)
        _await_ready(status, process)
        start = time.monotonic()
        timed_out = not exchange.run(start + timeout_s)
        _kill(process)
        duration_s = time.monotonic() - start
        code = None if timed_out else _exit_code(os.read(status, READ_BYTES))
        return Outcome(bytes(exchange.stdout), bytes(exchange.stderr), code, timed_out, exchange.cut_bytes, duration_s)


class _Exchange:
    """Feeds standard input and takes output, neither of which may make the caller wait longer than the deadline."""

    def __init__(self, process: subprocess.Popen[bytes], stdin: bytes, max_output_bytes: int):
        assert process.stdin is not None and process.stdout is not None and process.stderr is not None
        self._process = process
        self._rest = memoryview(stdin)
        self._room = max_output_bytes
        self.stdout, self.stderr, self.cut_bytes = bytearray(), bytearray(), 0
        self._selector = selectors.DefaultSelector()
        self._selector.register(process.stdout, selectors.EVENT_READ, self.stdout)
        self._selector.register(process.stderr, selectors.EVENT_READ, self.stderr)
        os.set_blocking(process.stdin.fileno(), False)
        self._selector.register(process.stdin, selectors.EVENT_WRITE)

    def run(self, deadline: float) -> bool:
        """False when the time was up. Ends when all output has ended: the confining processes hold it to the end."""
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
        return True

    def _write(self) -> None:
        assert self._process.stdin is not None
        try:
            if self._rest:
                self._rest = self._rest[os.write(self._process.stdin.fileno(), self._rest[:READ_BYTES]) :]
        except BlockingIOError:
            return
        except BrokenPipeError:
            self._rest = memoryview(b"")
        if not self._rest:
            self._selector.unregister(self._process.stdin)
            self._process.stdin.close()

    def _read(self, key: selectors.SelectorKey) -> None:
        data = os.read(key.fd, READ_BYTES)
        if not data:
            self._selector.unregister(key.fileobj)
        kept = data[: self._room]
        self._room -= len(kept)
        self.cut_bytes += len(data) - len(kept)
        key.data.extend(kept)


def _kill(process: subprocess.Popen[bytes]) -> None:
    """Confiner and init are one process group; with init the kernel ends all of its PID namespace."""
    if process.poll() is None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _await_ready(status: int, process: subprocess.Popen[bytes]) -> None:
    """Until the program is about to start. Namespaces and mounts are ours, and so is the time they take."""
    readable, _, _ = select.select([status], [], [], SETUP_TIMEOUT_S)
    report = os.read(status, len(READY)) if readable else b""
    if report != READY:
        _kill(process)
        assert process.stderr is not None
        reason = (report + os.read(status, READ_BYTES) if report else process.stderr.read(2000)).decode("utf-8", "replace")
        raise RuntimeError(f"submitted code could not be confined and did not run: {reason}")


def _exit_code(report: bytes) -> int:
    if not report.startswith(b"exit "):
        raise RuntimeError(f"the process that confines submitted code was ended: {report!r:.500}")
    return int(report[5:])


def _make_group(stack: contextlib.ExitStack, memory_bytes: int, process_count: int) -> str | None:
    """A control group beside the script's own one; None where the agent uses no control groups."""
    with open("/proc/self/cgroup", encoding="ascii") as stream:
        if "0::/grading/script\n" not in stream.read():
            return None
    path = f"{GROUP}/run-{os.getpid()}-{time.monotonic_ns()}"
    os.mkdir(path)
    stack.callback(_remove_group, path)
    for name, value in (("memory.max", memory_bytes), ("pids.max", process_count), ("memory.oom.group", 1)):
        with open(f"{path}/{name}", "w", encoding="ascii") as stream:
            stream.write(str(value))
    return path


def _remove_group(path: str) -> None:
    """The kernel lets go of a group a moment after its last process."""
    for _ in range(500):
        try:
            os.rmdir(path)
            return
        except OSError:
            time.sleep(0.01)
    raise RuntimeError(f"{path} still holds processes of the submitted code")
