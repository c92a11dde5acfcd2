"""A `Sandbox` in memory, for tests of what the environment does *around* a machine; it runs no commands.

Each of its answers is set by the test. Whatever depends on a machine is tested with real ones in tests/machine.
"""

# ruff: noqa: ARG002 - a sandbox in memory ignores most of what it is asked
from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from karotte_gym.errors import MachineDied
from karotte_gym.sandbox.contract import CommandResult, Contract, MachineSpec, Sandbox, Submission, SubmittedFile
from karotte_gym.sandbox.submission import listing_digest

DONE = CommandResult(output=b"", exit_code=0, timed_out=False, cut_bytes=0, duration_s=0.001)
RESULT = b'{"score": 1.0, "metadata": {"reason": "right"}}'


class MemorySandbox(Sandbox):
    """Keeps what it was asked and answers from `world`."""

    runtime = "memory"

    def __init__(self, spec: MachineSpec, world: World):
        self.spec = spec
        self.world = world
        self.closed = False
        self.session = False
        self.files: dict[str, bytes] = {}
        self.ended_sessions = 0

    def _alive(self) -> None:
        if self.closed:
            raise MachineDied("the machine was closed", cause="exited")
        if self.world.dies_in == self.spec.role:
            raise MachineDied("the machine went away", cause=self.world.cause)

    @property
    def contracts(self) -> tuple[Contract, ...]:
        return self.world.contracts

    def start_session(self, limits: Any) -> tuple[Contract, ...]:
        self.session = True
        return self.world.contracts

    def end_session(self, timeout_s: float = 30.0) -> None:
        self._alive()
        self.session = False
        self.ended_sessions += 1

    def bash(self, command: str, *, timeout_s: float, restart: bool = False) -> CommandResult:
        self._alive()
        self.world.asked.append((command, timeout_s, restart))
        return self.world.answer

    def read_file(self, path: str, *, max_bytes: int) -> tuple[CommandResult, bytes]:
        self._alive()
        return self.world.answer, self.world.read[:max_bytes]

    def collect_submission(self, paths: Sequence[str], into: str, *, limits: Any, allow_symlinks: bool = False) -> Submission:
        self._alive()
        if self.world.refusal is not None:
            raise self.world.refusal
        if not paths:
            return Submission(directory=into)
        data = self.world.submitted
        stored = Path(into, "0")
        stored.write_bytes(data)
        digest = hashlib.sha256(data).hexdigest()
        file = SubmittedFile(paths[0], False, 0o644, len(data), digest, str(stored))
        return Submission((file,), tuple(paths[1:]), listing_digest([file]), into)

    def put_file(self, path: str, data: bytes, *, mode: int = 0o644, owner: Any = "root") -> None:
        self.files[path] = data

    def score(self, script: str, **arguments: Any) -> tuple[CommandResult, bytes]:
        self._alive()
        self.world.scored.append(arguments | {"files": dict(self.files)})
        return DONE, self.world.result

    def close(self) -> None:
        self.closed = True

    def _never(self, *args: Any, **kwargs: Any) -> Any:
        raise AssertionError("the environment is not meant to call this")

    view_lines = replace_in_file = write_file = run = get_file = limit_resources = _never
    get_resource_limits = kill_processes = delete_files = _never


class World:
    """What the machines of a test do, and every machine that was started."""

    def __init__(self) -> None:
        self.machines: list[MemorySandbox] = []
        self.prefetches: list[MemoryPrefetch] = []
        self.asked: list[Any] = []
        self.scored: list[dict[str, Any]] = []
        self.answer = DONE
        self.read = b""
        self.refusal: Exception | None = None
        self.submitted = b"63148\n"
        self.result = RESULT
        self.dies_in = ""
        self.cause = "exited"
        self.contracts = (Contract("memory", "detected_and_reaped", 1, "a watchdog saw it"),)
        self.start_error: Exception | None = None

    def start(self, spec: MachineSpec) -> MemorySandbox:
        if self.start_error is not None:
            raise self.start_error
        self.machines.append(MemorySandbox(spec, self))
        return self.machines[-1]

    def prefetch(self, spec: MachineSpec) -> MemoryPrefetch:
        self.prefetches.append(MemoryPrefetch(self, spec))
        return self.prefetches[-1]

    def of(self, role: str) -> list[MemorySandbox]:
        return [machine for machine in self.machines if machine.spec.role == role]

    @contextlib.contextmanager
    def dying(self, role: str, cause: str) -> Iterator[None]:
        self.dies_in, self.cause = role, cause
        yield
        self.dies_in = ""


class MemoryPrefetch:
    """As `machines.Prefetch`."""

    def __init__(self, world: World, spec: MachineSpec):
        self.world, self.spec, self.cancelled = world, spec, False

    def take(self) -> MemorySandbox:
        return self.world.start(self.spec)

    def cancel(self) -> None:
        self.cancelled = True
