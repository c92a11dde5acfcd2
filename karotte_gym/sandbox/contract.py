"""`Sandbox`: what every runtime promises about one machine. Implement this, pass the conformance suite, and the rest works.

Promises, for every method:

- It returns or raises within its timeout plus `SLACK_S`. Nothing the machine does can make it wait longer; what
  the host lets the machine wait for a processor is added.
- Every byte from the machine is hostile: bounded, framed, parsed without trust. No name from the machine is ever used
  as a host path.
- `MachineDied` when the machine is gone, silent or speaks rubbish; `CallRefused` when the agent says no;
  `StudentMisbehavior` only from `collect_submission`, `kill_processes` and `end_session`. Nothing else escapes, but for
  errors of argument types.
- `close()` is idempotent, never raises for a machine that is already gone, and leaves nothing behind on the host.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import EllipsisType, MappingProxyType
from typing import Literal

from karotte_gym.config import FileLimit, Hardware, Limits, SubmissionLimits
from karotte_gym.errors import MachineError
from karotte_gym.service import Service

__all__ = [
    "SLACK_S",
    "CommandResult",
    "Contract",
    "Enforcement",
    "MachineSpec",
    "Sandbox",
    "ServiceStatus",
    "Submission",
    "SubmittedFile",
    "User",
]

SLACK_S = 2.0  # what a call may take over its own timeout: the agent's own grace of 1 s and the way back
User = Literal["student", "root"]
Enforcement = Literal["prevented", "detected_and_reaped", "not_supported"]


@dataclass(frozen=True, slots=True)
class Contract:
    """How one limit is held in this machine, as a probe saw it."""

    resource: str  # "memory", "processes", "disk_bytes", "disk_files", "network"
    enforcement: Enforcement
    limit: int | None  # bytes or a count; None where there is no number
    evidence: str  # one sentence: what the probe did and saw


@dataclass(frozen=True, slots=True)
class CommandResult:
    """What a command did. `output` is what came out of stdout and stderr in the order it came, head and tail kept."""

    output: bytes
    exit_code: int | None  # None when it was ended by the timeout; 128+n when a signal ended it
    timed_out: bool
    cut_bytes: int  # how much of the output was left out in the middle
    duration_s: float
    stdout: bytes = b""  # only from `run`, where the two are kept apart; there `output` is stdout then stderr
    stderr: bytes = b""
    note: str = ""  # what the session has to say, e.g. that the shell ended and a new one was started


@dataclass(frozen=True, slots=True)
class SubmittedFile:
    """One entry of a submission: a regular file or a directory, never anything else."""

    path: str  # absolute path in the machine, validated text
    is_dir: bool
    mode: int
    size: int
    sha256: str  # "" for a directory
    data_path: str  # host file that holds the bytes, named by us; "" for a directory


@dataclass(frozen=True, slots=True)
class Submission:
    """What custody took: plain bytes on the host under names of our own."""

    files: tuple[SubmittedFile, ...] = ()
    missing: tuple[str, ...] = ()  # named paths that were not there; the grader decides what that means
    sha256: str = ""  # digest over the sorted listing (path, type, mode, size, digest)
    directory: str = field(default="", compare=False)  # host directory that holds the files


@dataclass(frozen=True, slots=True)
class ServiceStatus:
    """How the start of a service went. Not to become ready is no error: it may be what the student handed in."""

    running: bool
    ready: bool
    exit_code: int | None  # None while it runs
    note: str = ""


class Sandbox(ABC):
    """One running machine. Not thread-safe but for `close`, which any thread may call at any time."""

    runtime: str  # e.g. "qemu/kvm", "qemu/tcg"
    versions: Mapping[str, str] = MappingProxyType({})  # for the record: "qemu", "image", "kernel" or another runtime's own

    @property
    @abstractmethod
    def contracts(self) -> tuple[Contract, ...]:
        """What holds in this machine; empty before `start_session`."""

    @abstractmethod
    def start_session(self, limits: Limits) -> tuple[Contract, ...]:
        """Start the student's session: own cgroup and namespaces, limits in force before its first instruction."""

    @abstractmethod
    def end_session(self, timeout_s: float = 30.0) -> None:
        """Kill all that the student runs and prove it. StudentMisbehavior when something is left after `timeout_s`."""

    @abstractmethod
    def bash(self, command: str, *, timeout_s: float, restart: bool = False) -> CommandResult:
        """Run a command in the student's persistent shell. `restart` gives a new shell first."""

    @abstractmethod
    def view_lines(self, path: str, start: int, end: int) -> CommandResult:
        """Lines `start`..`end` (from 1, inclusive) of a regular file, as the student. exit_code 1: output says why not."""

    @abstractmethod
    def replace_in_file(self, path: str, old: str, new: str, *, all: bool = False) -> CommandResult:
        """Replace text in a regular file, as the student: the first match, or `all`. exit_code 1: output says why not."""

    @abstractmethod
    def write_file(self, path: str, content: str) -> CommandResult:
        """Make `content` the whole of a regular file, as the student, atomically; 1 MiB at most. exit_code 1: why not."""

    @abstractmethod
    def read_file(self, path: str, *, max_bytes: int) -> tuple[CommandResult, bytes]:
        """A regular file's bytes, read as the student, `max_bytes` (10 MiB at most) or none. exit_code 1: why not."""

    @abstractmethod
    def run(
        self,
        argv: Sequence[str],
        *,
        user: User = "student",
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        stdin: bytes = b"",
        timeout_s: float = 60.0,
        max_output_bytes: int = 1024 * 1024,
    ) -> CommandResult:
        """Run one program (absolute path) without a shell, as the student in its session or as root outside it.

        ValueError or TypeError for what no program can be given: a NUL, half a character, no text.
        """

    @abstractmethod
    def put_file(self, path: str, data: bytes, *, mode: int = 0o644, owner: User = "root") -> None:
        """Write a file as root, atomically, parents made. Refuses a path that goes through a link."""

    @abstractmethod
    def get_file(self, path: str, *, max_bytes: int) -> bytes:
        """Read a regular file as root, no link followed. CallRefused("no-file" | "not-regular" | "too-large")."""

    @abstractmethod
    def limit_resources(
        self,
        *,
        memory_bytes: int | EllipsisType | None = ...,
        process_count: int | EllipsisType | None = ...,
        file: FileLimit | EllipsisType | None = ...,
    ) -> tuple[Contract, ...]:
        """Change limits now. Left out (`...`) keeps, None lifts. Returns a contract for each limit that was named."""

    @abstractmethod
    def get_resource_limits(self) -> dict[str, int | None]:
        """The limits as whatever enforces them reports them: memory_bytes, process_count, file_bytes, file_count."""

    @abstractmethod
    def kill_processes(self, uid: int, timeout_s: float = 30.0) -> int:
        """Kill every process of `uid` and prove it by a clean sweep; returns how many were killed. Refuses uid 0."""

    @abstractmethod
    def delete_files(
        self,
        uid: int,
        include: Sequence[str] = (),
        exclude: Sequence[str] | None = None,
        extend_exclude: Sequence[str] = (),
        timeout_s: float = 60.0,
    ) -> list[str]:
        """Remove everything `uid` owns on writable mounts and its IPC objects; returns what could not be removed."""

    @abstractmethod
    def collect_submission(
        self, paths: Sequence[str], into: str, *, limits: SubmissionLimits, allow_symlinks: bool = False
    ) -> Submission:
        """Take a copy of `paths` into the host directory `into`. Call after `end_session`."""

    @abstractmethod
    def score(
        self,
        script: str,
        *,
        submission_dir: str,
        root_data_dir: str,
        timeout_s: float,
        memory_bytes: int | None,
        max_result_bytes: int,
        max_output_bytes: int,
    ) -> tuple[CommandResult, bytes]:
        """Run a scoring script (a path in this machine) cleanly as root; returns what it did and its result file's bytes."""

    def begin_live_grading(self, bytes_each: int) -> None:  # noqa: ARG002
        """Make places for grading data, which nothing of the student's sees; refused while anything of it is alive.

        `/root_data`, `/grade`, `/grading_data`, `/submission`: empty, in memory, `bytes_each` at most.
        """
        raise MachineError(f"a {self.runtime} sandbox can't be graded live")

    def start_service(self, service: Service, files: Submission) -> ServiceStatus:  # noqa: ARG002
        """Start it on the copy in `files` (of which it gets `service.files`), as a user of its own."""
        raise MachineError(f"a {self.runtime} sandbox runs no services")

    def end_live_grading(self) -> None:
        """Stop the services that are not kept and remove the places, so that a student may come in again."""
        raise MachineError(f"a {self.runtime} sandbox can't be graded live")

    @abstractmethod
    def close(self) -> None:
        """End the machine and remove all that it left on the host."""


@dataclass(frozen=True, slots=True)
class MachineSpec:
    """Which machine: everything that a snapshot's key is made of, as far as a task says it.

    `drive` maps a top-level name of the data drive to a host directory: for a student's machine "student_data" and
    "shared_data", for a grader's "root_data" and "grade". Names that are left out become empty directories.
    """

    role: Literal["student", "grader"]
    hardware: Hardware = field(default_factory=Hardware)
    drive: tuple[tuple[str, str], ...] = ()
    image: str | None = None  # a named image; None is the base image
    containerfile: str | None = None  # host path of an environment's own, built on the base; see sandbox/image_extra.py
    test_hooks: bool = False
    use_cgroups: bool = True
    silence_timeout_s: float = 120.0
