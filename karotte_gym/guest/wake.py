"""Ends the system call that a process sleeps in, as a signal with a handler would: `wake` makes it return EINTR.

Bash looks whether it was interrupted when a call of its own comes back early. For that a signal must have a handler, and
a bash without a keyboard has none that gets through while it waits for its jobs or opens a pipe. A tracer needs none: a
process leaves its call for the tracer's stop, and what would begin the call anew is in registers then.
"""

from __future__ import annotations

import contextlib
import os
import platform
import signal
import struct
import time

from .process_table import pinned
from .syscalls import (
    PTRACE_DETACH,
    PTRACE_GETREGSET,
    PTRACE_INTERRUPT,
    PTRACE_SEIZE,
    PTRACE_SETREGSET,
    WAIT_ALL,
    ptrace,
    ptrace_registers,
)

__all__ = ["see_ends", "wake"]

STOP_S = 0.3  # to come to a stop; a millisecond is enough unless the processor is taken or the kernel stuck
END_S = 0.3  # to die; among many that do it takes longer, and is seen later
PAUSE_S = 0.0005
_MINUS_EINTR = -4
_BEGINS_ANEW = range(-516, -511)  # ERESTARTSYS to ERESTART_RESTARTBLOCK, the kernel's own
_unseen: set[int] = set()  # tracees that were killed and not seen to end


def wake(pid: int) -> bool:
    """Whether the process was stopped and sent on, out of the call that it slept in if there was one.

    False when it is gone, or somebody else's tracee. One that can't be stopped in time is killed: it would stop at each of
    its signals as long as the calling thread lives.
    """
    pidfd = pinned(pid)
    if pidfd is None:
        return False
    try:
        ptrace(PTRACE_SEIZE, pid)
    except OSError:
        os.close(pidfd)
        return False
    try:
        ptrace(PTRACE_INTERRUPT, pid)
        stopped = _wait_for_stop(pid)
        if stopped:
            _leave_call(pid)
            ptrace(PTRACE_DETACH, pid)
    except OSError:  # killed meanwhile
        stopped = False
    if not stopped:
        _see_its_end(pid, pidfd)
    os.close(pidfd)
    return stopped


def see_ends() -> None:
    """Take note of the end of those that `wake` has killed, as far as they have ended.

    Nobody can reap a process before its tracer has seen its end: until then neither its PID namespace nor a session ends.
    Any thread may see it.
    """
    for pid in list(_unseen):
        with contextlib.suppress(ChildProcessError):  # another thread was quicker
            if not os.waitpid(pid, os.WNOHANG | WAIT_ALL)[0]:
                continue
        _unseen.discard(pid)


def _see_its_end(pid: int, pidfd: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        signal.pidfd_send_signal(pidfd, signal.SIGKILL)
    _unseen.add(pid)
    deadline = time.monotonic() + END_S
    while pid in _unseen and time.monotonic() < deadline:
        time.sleep(PAUSE_S)
        see_ends()


def _wait_for_stop(pid: int) -> bool:
    deadline = time.monotonic() + STOP_S
    while True:
        found, status = os.waitpid(pid, os.WNOHANG | WAIT_ALL)
        if found:
            return os.WIFSTOPPED(status)
        if time.monotonic() >= deadline:
            return False
        time.sleep(PAUSE_S)


def _leave_call_x86_64(pid: int) -> None:
    """The kernel will look at the registers after the stop: the number of a call, and that it is to begin anew."""
    layout, result, number = struct.Struct("=27q"), 10, 15
    registers = bytearray(layout.size)
    ptrace_registers(PTRACE_GETREGSET, pid, registers)
    values = list(layout.unpack(registers))
    if values[number] >= 0 and values[result] in _BEGINS_ANEW:
        values[number], values[result] = -1, _MINUS_EINTR
        layout.pack_into(registers, 0, *values)
        ptrace_registers(PTRACE_SETREGSET, pid, registers)


def _leave_call_aarch64(pid: int) -> None:
    """The kernel has already gone back to the instruction that calls: skip it."""
    layout, result, counter, call = struct.Struct("=34q"), 0, 32, b"\x01\x00\x00\xd4"
    registers = bytearray(layout.size)
    ptrace_registers(PTRACE_GETREGSET, pid, registers)
    values = list(layout.unpack(registers))
    with open(f"/proc/{pid}/mem", "rb", buffering=0) as memory:
        instruction = os.pread(memory.fileno(), len(call), values[counter])
    if instruction == call:
        values[counter], values[result] = values[counter] + len(call), _MINUS_EINTR
        layout.pack_into(registers, 0, *values)
        ptrace_registers(PTRACE_SETREGSET, pid, registers)


_leave_call = {"x86_64": _leave_call_x86_64, "aarch64": _leave_call_aarch64}[platform.machine()]
