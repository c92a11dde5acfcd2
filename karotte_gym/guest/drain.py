"""Reads what a process prints until it ends or its time is up, then ends it and all of its process group."""

from __future__ import annotations

import os
import selectors
import signal
import subprocess
import time
from dataclasses import dataclass

from .output import BoundedOutput

__all__ = ["Drained", "drain"]

READ_BYTES = 256 * 1024
LAST_WORDS_S = 0.2  # output that is still in the pipes when the process has ended


@dataclass(frozen=True, slots=True)
class Drained:
    """How it ended: `exit_code` None after the timeout, 128+n after a signal."""

    stdout: bytes
    stderr: bytes
    cut_bytes: int
    exit_code: int | None
    timed_out: bool


def drain(process: subprocess.Popen[bytes], *, deadline: float, max_output_bytes: int) -> Drained:
    """`process` was started with pipes and in a session of its own; `deadline` is by the monotonic clock."""
    assert process.stdout is not None and process.stderr is not None
    streams = {process.stdout.fileno(): BoundedOutput(max_output_bytes // 2)}
    streams[process.stderr.fileno()] = BoundedOutput(max_output_bytes // 2)
    ended = os.pidfd_open(process.pid)
    try:
        timed_out = not _read_until_end(streams, ended, deadline)
        os.killpg(process.pid, signal.SIGKILL)  # the leader is not reaped yet, so the number is still its own
        code = process.wait()
        _read_rest(streams)
    finally:
        os.close(ended)
        process.stdout.close()
        process.stderr.close()
    stdout, stderr = streams.values()
    exit_code = None if timed_out else code if code >= 0 else 128 - code
    return Drained(stdout.result(), stderr.result(), stdout.cut_bytes + stderr.cut_bytes, exit_code, timed_out)


def _read_until_end(streams: dict[int, BoundedOutput], ended: int, deadline: float) -> bool:
    """False when the time was up first."""
    with selectors.DefaultSelector() as selector:
        for descriptor in (*streams, ended):
            selector.register(descriptor, selectors.EVENT_READ)
        while (remaining_s := deadline - time.monotonic()) > 0:
            for key, _ in selector.select(remaining_s):
                if key.fd == ended:
                    return True
                if not _feed(streams, key.fd):
                    selector.unregister(key.fd)
    return False


def _read_rest(streams: dict[int, BoundedOutput]) -> None:
    """What is left in the pipes. A process that left the group may hold them open: it is not waited for."""
    deadline = time.monotonic() + LAST_WORDS_S
    with selectors.DefaultSelector() as selector:
        for descriptor in streams:
            selector.register(descriptor, selectors.EVENT_READ)
        while selector.get_map() and time.monotonic() < deadline:
            for key, _ in selector.select(max(0.0, deadline - time.monotonic())):
                if not _feed(streams, key.fd):
                    selector.unregister(key.fd)


def _feed(streams: dict[int, BoundedOutput], descriptor: int) -> bool:
    data = os.read(descriptor, READ_BYTES)
    streams[descriptor].feed(data)
    return bool(data)
