"""The agent: root's only representative in a machine. Reads calls from the virtio port and has them handled.

One thread reads, at real-time priority; it answers ``ping`` itself, so that silence means that the machine has stopped
and not that it is busy. Every other call runs in a worker thread, of ordinary priority in a group of high weight (a
handler that walks over thousands of processes must leave them time to die), from a pool that grows on demand and never
shrinks. Workers are batch threads: what wakes one, the closing of a pipe for instance, does not take the processor at
once from whoever did it, so a shell is at its prompt when the end of its command is noticed. Whatever a handler raises
is an answer; only a stream that makes no sense ends the agent, and so the machine.
"""

from __future__ import annotations

import gc
import importlib
import os
import platform
import queue
import resource
import sys
import threading
import traceback
from collections.abc import Callable
from typing import Any

from . import groups, syscalls
from .calls import Call, Handler, Machine, Refused
from .leader import start_root_launcher
from .port import FrameReader, FrameWriter, open_port
from .spawning import Launcher
from .wire import encode

__all__ = ["MODULES", "VERSION", "Agent", "collect_methods", "main"]

VERSION = 1  # of the calls in docs/wire.md
MODULES = (
    "shell", "files", "processes", "custody", "reclaim", "transfer", "scoring", "probes",
    "runner", "prepare", "renew", "session", "limits", "services", "live_grading", "crash",
)  # fmt: skip
MAX_WORKERS = 64  # calls at once; more wait. The host has a handful outstanding
STACK_BYTES = 1 << 20
OPEN_FILES = 4096  # the shell tool keeps a pipe for every background job
# What any one user may have where its group's limit is lifted; the kernel's own follows RAM and would stop the student
# below what its contract says. Of threads-max (see `hardening`) the rest is root's, whom this does not bind.
USER_TASKS = 12288


def main() -> None:
    """Run the agent of this machine; returns never, ends by an exception."""
    machine = Machine(**_command_line())
    methods = collect_methods()
    _protect(machine)
    channel, _ = start_root_launcher()
    machine.state["launcher"] = Launcher(channel)
    machine.state["session-lock"] = threading.Lock()
    threading.stack_size(STACK_BYTES)
    gc.collect()
    gc.freeze()  # what is there stays: later collections look at less, and forks share more
    Agent(machine, methods, open_port()).run()


def _command_line() -> dict[str, Any]:
    with open("/proc/cmdline") as file:
        words = file.read().split()
    return {
        "test_hooks": "karotte.test_hooks=1" in words,
        "use_cgroups": "karotte.no_cgroups=1" not in words,
        "fixed_addresses": "karotte.fixed_addresses=1" in words,
    }


def _protect(machine: Machine) -> None:
    """Nothing that the student does to memory or processor may stop the agent."""
    syscalls.set_name("karotte-agent")
    syscalls.prctl(syscalls.PR_SET_DUMPABLE, 0)
    with open("/proc/self/oom_score_adj", "w") as file:
        file.write("-1000")
    if machine.use_cgroups:
        groups.make_groups()
    os.setpriority(os.PRIO_PROCESS, 0, -20)
    resource.setrlimit(resource.RLIMIT_NOFILE, (OPEN_FILES, OPEN_FILES))
    resource.setrlimit(resource.RLIMIT_NPROC, (USER_TASKS, USER_TASKS))
    syscalls.lock_memory()
    syscalls.become_important()
    machine.state["real_time"] = True


def collect_methods() -> dict[str, Handler]:
    """What all modules answer to; a method that two of them claim is a mistake of ours."""
    methods: dict[str, Handler] = {}
    for name in MODULES:
        for method, handler in importlib.import_module(f".{name}", __package__).METHODS.items():
            if method in methods:
                raise ValueError(f"{method} is claimed twice, the second time by {name}")
            methods[method] = handler
    return methods


class Agent:
    """The loop, the workers and the answers."""

    def __init__(self, machine: Machine, methods: dict[str, Handler], port: int):
        self._machine = machine
        self._methods: dict[str, Handler] = {**methods, "hello": _hello}
        self._reader = FrameReader(port)
        self._writer = FrameWriter(port)
        self._calls: queue.SimpleQueue[tuple[dict[str, Any], bytes]] = queue.SimpleQueue()
        self._count = threading.Lock()
        self._idle = 0
        self._workers = 0

    def run(self) -> None:
        """Say hello, then serve for ever."""
        self._writer.write(encode({"id": 0, "result": greeting()}))
        while True:
            header, body = self._reader.read()
            if self._machine.state.get("silent"):
                continue
            if header.get("method") == "ping":
                self._writer.write_soon(encode({"id": _number(header), "result": {}}))
                continue
            self._hand_over(header, body)

    def _hand_over(self, header: dict[str, Any], body: bytes) -> None:
        with self._count:
            if self._idle:
                self._idle -= 1
                new = False
            else:
                new = self._workers < MAX_WORKERS
                self._workers += new
        self._calls.put((header, body))
        if new:
            threading.Thread(target=self._work, daemon=True).start()

    def _work(self) -> None:
        if not self._machine.use_cgroups:  # no group has a weight: thousands of the student's processes are equals
            syscalls.become_important()
        else:
            os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))
        while True:
            self._answer(*self._calls.get())
            with self._count:
                self._idle += 1

    def _answer(self, header: dict[str, Any], body: bytes) -> None:
        number = _number(header)
        afterwards: list[Callable[[], object]] = []
        try:
            frame = self._carry_out(number, header, body, afterwards)
        except Refused as refusal:
            frame = _error(number, refusal.kind, str(refusal))
        except Exception as error:
            traceback.print_exc()
            frame = _error(number, "internal", f"{type(error).__name__}: {error}")
        if not self._machine.state.get("silent"):
            self._writer.write(frame)
        for each in afterwards:
            try:
                each()
            except Exception:  # its call is answered; the next one finds out for itself
                traceback.print_exc()

    def _carry_out(self, number: int, header: dict[str, Any], body: bytes, afterwards: list[Callable[[], object]]) -> bytes:
        method, params = header.get("method"), header.get("params", {})
        if not isinstance(method, str) or not isinstance(params, dict):
            raise Refused("bad-params", "a call needs a method's name and an object of parameters")
        handler = self._methods.get(method)
        if handler is None:
            raise Refused("unknown-method", f"there is no method {method:.100}")

        def part(value: dict[str, Any], data: bytes = b"") -> None:
            self._writer.write(encode({"id": number, "part": value}, data))

        result, answer = handler(self._machine, Call(method, params, body, part, afterwards))
        return encode({"id": number, "result": result}, answer)


def _number(header: dict[str, Any]) -> int:
    number = header.get("id")
    return number if isinstance(number, int) and not isinstance(number, bool) else -1


def _error(number: int, kind: str, message: str) -> bytes:
    return encode({"id": number, "error": {"kind": kind, "message": message[:4000]}})


def _hello(_machine: Machine, _call: Call) -> tuple[dict[str, Any], bytes]:
    return greeting(), b""


def greeting() -> dict[str, Any]:
    """Which agent this is, on what."""
    with open("/proc/sys/kernel/random/boot_id") as file:
        boot_id = file.read().strip()
    python = ".".join(map(str, sys.version_info[:3]))
    return {"agent": VERSION, "boot_id": boot_id, "python": python, "kernel": platform.release()}
