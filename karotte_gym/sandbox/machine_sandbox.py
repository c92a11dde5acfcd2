"""`MachineSandbox`: the promises of `Sandbox`, kept by calls to the agent in a virtual machine.

Which call does what is in ``docs/wire.md``. Results are read field by field (`replies.py`); durations are measured on
this side (`agent_calls.py`), by a clock that the machine can't touch.
"""

from __future__ import annotations

import contextlib
import secrets
import time
import weakref
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import EllipsisType
from typing import Any

from karotte_gym.config import FileLimit, Hardware, Limits, SubmissionLimits
from karotte_gym.errors import CallRefused, MachineDied
from karotte_gym.guest.places import SERVICES
from karotte_gym.guest.wire import MAX_BODY_BYTES
from karotte_gym.sandbox import submission
from karotte_gym.sandbox.agent_calls import MAX_EXIT_CODE, MAX_NOTE_CHARS, AgentCalls, command_result
from karotte_gym.sandbox.arguments import checked_argv, checked_env, checked_path, checked_paths, checked_text
from karotte_gym.sandbox.channel import Channel
from karotte_gym.sandbox.contract import CommandResult, Contract, MachineSpec, Sandbox, ServiceStatus, Submission, User
from karotte_gym.sandbox.diagnostics import write_diagnostics
from karotte_gym.sandbox.replies import Reply
from karotte_gym.sandbox.runtimes.qemu import END_TIMEOUT_S, Qemu
from karotte_gym.service import Service

__all__ = ["RENEW_TIMEOUT_S", "MachineSandbox"]

MIB = 1024 * 1024
RESERVED_MEMORY_BYTES = 160 * MIB  # kernel, agent and page cache of a machine
RENEW_TIMEOUT_S = 30.0  # measured: 30 ms; a host with many machines starting takes longer
SESSION_TIMEOUT_S = 30.0
SHELL_TIMEOUT_S = 40.0  # until the first shell of a session is at its prompt: 10 s of looking, and a fork may take 20 s
FILE_TIMEOUT_S = 30.0  # one chunk to or from a file; a view or replacement of a file
LIMITS_TIMEOUT_S = 30.0
CRASH_TIMEOUT_S = 3.0
COLLECT_TIMEOUT_S = 300.0  # a gibibyte through an emulated port at 10 MB/s takes 100 s
PROBE_TIMEOUT_S = 300.0
LIVE_TIMEOUT_S = 60.0  # mounts, and a leader for each service: a second or two emulated
SERVICE_PLACE_BYTES = 64 * MIB  # its files, and what it writes to its /tmp
MARGIN_BYTES = 1024  # what the agent's mark of a cut may add to an output
MAX_PROBES = 1000
PARTS_AN_ENTRY = 4  # a directory, or a file's begin and end; data parts are counted apart


def session_parameters(limits: Limits, hardware: Hardware) -> dict[str, Any]:
    """What ``session_start`` is told: the limits, with the defaults that follow from the hardware filled in."""
    memory_bytes = limits.memory_bytes
    if memory_bytes is None:
        memory_bytes = hardware.memory_mib * MIB - RESERVED_MEMORY_BYTES
    return {
        "memory_bytes": memory_bytes,
        "process_count": limits.process_count,
        "file_bytes": None,  # the scratch disk's own size holds them
        "file_count": None,
        "max_output_bytes": min(limits.max_output_bytes, MAX_BODY_BYTES - MARGIN_BYTES),
    }


class MachineSandbox(Sandbox):
    """A restored clone of a snapshot. `machines.start` makes them; a garbage-collected one leaves nothing behind."""

    def __init__(self, machine: Qemu, spec: MachineSpec, accelerator: str):
        self.runtime = f"qemu/{accelerator}"
        self._machine = machine
        self._spec = spec
        self._contracts: tuple[Contract, ...] = ()
        self._max_output_bytes = Limits().max_output_bytes
        self._keeps_services = False
        self._shell_awaited = False
        self._agent = AgentCalls(machine, spec.silence_timeout_s)
        self._channel = self._agent.channel
        self._finalizer = weakref.finalize(self, _end, self._channel, machine)

    @property
    def contracts(self) -> tuple[Contract, ...]:
        return self._contracts

    @property
    def pid(self) -> int:
        """Of the emulator, on this host."""
        return self._machine.pid

    def renew(self, timeout_s: float = RENEW_TIMEOUT_S) -> None:
        """Fresh entropy, clock and host name: nothing that the student can foresee from the snapshot remains."""
        seed, hostname = secrets.token_hex(32), f"karotte-{secrets.token_hex(4)}"
        self._agent.ask("renew", {"seed": seed, "time_ns": time.time_ns(), "hostname": hostname}, timeout_s=timeout_s)

    def start_session(self, limits: Limits) -> tuple[Contract, ...]:
        parameters = session_parameters(limits, self._spec.hardware)
        self._max_output_bytes = parameters["max_output_bytes"]
        parameters["machine_network"] = self._keeps_services  # where the student can reach them
        reply, _ = self._agent.ask("session_start", parameters, timeout_s=SESSION_TIMEOUT_S)
        self._contracts = reply.contracts()
        self._shell_awaited = False
        return self._contracts

    def end_session(self, timeout_s: float = 30.0) -> None:
        self._agent.end_processes("session_end", {}, timeout_s)

    def bash(self, command: str, *, timeout_s: float, restart: bool = False) -> CommandResult:
        if not self._shell_awaited:  # as a rule nothing of the student's runs yet: what this takes is the host's
            self._agent.ask("shell_wait", {}, timeout_s=SHELL_TIMEOUT_S)
            self._shell_awaited = True
        parameters = {"command": command, "restart": restart, "timeout_s": timeout_s}
        return self._command("bash", parameters, timeout_s)

    def view_lines(self, path: str, start: int, end: int) -> CommandResult:
        return self._command("view_lines", {"path": path, "start": start, "end": end}, FILE_TIMEOUT_S)

    def replace_in_file(self, path: str, old: str, new: str, *, all: bool = False) -> CommandResult:
        return self._command("replace_in_file", {"path": path, "old": old, "new": new, "all": all}, FILE_TIMEOUT_S)

    def write_file(self, path: str, content: str) -> CommandResult:
        body = content.encode("utf-8", "replace")
        if len(body) > MAX_BODY_BYTES:
            said = f"content of {len(body)} bytes is too long; {MAX_BODY_BYTES} bytes are written at once\n"
            return CommandResult(said.encode(), 1, timed_out=False, cut_bytes=0, duration_s=0.0)
        return self._command("write_file", {"path": path}, FILE_TIMEOUT_S, body)

    def read_file(self, path: str, *, max_bytes: int) -> tuple[CommandResult, bytes]:
        start = time.monotonic()
        reply, output, data = self._agent.fetch(
            "read_file",
            path,
            max_bytes=max_bytes,
            max_parts=1 + max_bytes // MAX_BODY_BYTES,
            timeout_s=FILE_TIMEOUT_S,
        )
        return command_result(reply, output, start), data

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
        if len(stdin) > MAX_BODY_BYTES:
            raise ValueError(f"standard input of {len(stdin)} bytes; {MAX_BODY_BYTES} fit, put more into a file")
        parameters = {
            "argv": checked_argv(argv),
            "user": user,
            "cwd": None if cwd is None else checked_text("cwd", cwd),
            "env": checked_env(env),
            "timeout_s": timeout_s,
            "max_output_bytes": min(max_output_bytes, MAX_BODY_BYTES // 2 - MARGIN_BYTES),  # stdout and stderr each
        }
        start = time.monotonic()
        reply, body = self._agent.ask("run", parameters, stdin, timeout_s=timeout_s)
        return command_result(reply, body, start, reply.integer("stdout_bytes", 0, len(body)))

    def put_file(self, path: str, data: bytes, *, mode: int = 0o644, owner: User = "root") -> None:
        path, token = checked_path(path), secrets.token_hex(16)
        chunks = [data[offset : offset + MAX_BODY_BYTES] for offset in range(0, len(data), MAX_BODY_BYTES)] or [b""]
        for number, chunk in enumerate(chunks, 1):
            parameters = {
                "path": path,
                "mode": mode,
                "owner": owner,
                "token": token,
                "append": number > 1,
                "last": number == len(chunks),
            }
            self._agent.ask("put_file", parameters, chunk, timeout_s=FILE_TIMEOUT_S)

    def get_file(self, path: str, *, max_bytes: int) -> bytes:
        path = checked_path(path)
        _, _, data = self._agent.fetch(
            "get_file",
            path,
            max_bytes=max_bytes,
            max_parts=2 + max_bytes // 1024,
            timeout_s=FILE_TIMEOUT_S * (1 + max_bytes // (64 * MIB)),
        )
        return data

    def limit_resources(
        self,
        *,
        memory_bytes: int | EllipsisType | None = ...,
        process_count: int | EllipsisType | None = ...,
        file: FileLimit | EllipsisType | None = ...,
    ) -> tuple[Contract, ...]:
        named: dict[str, Any] = {"memory_bytes": memory_bytes, "process_count": process_count}
        if file is not ...:
            file = file or FileLimit(total_bytes=None, count=None)
            named |= {"file_bytes": file.total_bytes, "file_count": file.count}
        parameters = {name: value for name, value in named.items() if value is not ...}
        reply, _ = self._agent.ask("limits_set", parameters, timeout_s=LIMITS_TIMEOUT_S)
        changed = reply.contracts()
        kept = [contract for contract in self._contracts if contract.resource not in {c.resource for c in changed}]
        self._contracts = (*kept, *changed)
        return changed

    def get_resource_limits(self) -> dict[str, int | None]:
        reply, _ = self._agent.ask("limits_get", timeout_s=LIMITS_TIMEOUT_S)
        names = ("memory_bytes", "process_count", "file_bytes", "file_count")
        return {name: reply.optional_integer(name) for name in names}

    def kill_processes(self, uid: int, timeout_s: float = 30.0) -> int:
        return self._agent.end_processes("kill", {"uid": uid}, timeout_s).integer("killed")

    def delete_files(
        self,
        uid: int,
        include: Sequence[str] = (),
        exclude: Sequence[str] | None = None,
        extend_exclude: Sequence[str] = (),
        timeout_s: float = 60.0,
    ) -> list[str]:
        parameters = {
            "uid": uid,
            "include": checked_paths(include),
            "exclude": None if exclude is None else checked_paths(exclude),
            "extend_exclude": checked_paths(extend_exclude),
            "timeout_s": timeout_s,
        }
        reply, _ = self._agent.ask("delete_files", parameters, timeout_s=timeout_s)
        return reply.texts("left")

    def collect_submission(
        self, paths: Sequence[str], into: str, *, limits: SubmissionLimits, allow_symlinks: bool = False
    ) -> Submission:
        call = self._channel.start(
            "collect",
            {"paths": list(paths), "allow_symlinks": allow_symlinks, **limits.model_dump()},
            timeout_s=COLLECT_TIMEOUT_S,
            max_parts=PARTS_AN_ENTRY * (limits.max_entries + len(paths)) + limits.max_total_bytes // 4096,
            max_part_bytes=limits.max_total_bytes,
        )
        try:
            return submission.receive(call.parts(), into, limits, paths)
        except MachineDied as error:
            self._channel.reject(str(error))

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
        parameters = {
            "script": script,
            "submission_dir": submission_dir,
            "root_data_dir": root_data_dir,
            "timeout_s": timeout_s,
            "memory_bytes": memory_bytes,
            "max_result_bytes": min(max_result_bytes, MAX_BODY_BYTES // 4),
            "max_output_bytes": min(max_output_bytes, MAX_BODY_BYTES // 4),
        }
        start = time.monotonic()
        reply, body = self._agent.ask("score", parameters, timeout_s=timeout_s)
        result_bytes = reply.integer("result_bytes", 0, min(max_result_bytes, len(body)))
        result, output = body[:result_bytes], body[result_bytes:]
        return command_result(reply, output, start, reply.integer("stdout_bytes", 0, len(output))), result

    def begin_live_grading(self, bytes_each: int) -> None:
        self._agent.ask("grading_begin", {"bytes": bytes_each}, timeout_s=LIVE_TIMEOUT_S)

    def start_service(self, service: Service, files: Submission) -> ServiceStatus:
        place = {"name": service.name, "bytes": SERVICE_PLACE_BYTES, "keep": service.keep}
        self._agent.ask("service_place", place, timeout_s=LIVE_TIMEOUT_S)
        target = f"{SERVICES}/{service.name}"
        submission.send_to(self, submission.below(files, service.files), target, staging="/grading_data/service")
        parameters = {
            "name": service.name,
            "argv": list(service.argv),
            "port": service.port,
            "timeout_s": service.ready_timeout_s,
            "memory_bytes": service.memory_bytes,
            "process_count": service.process_count,
        }
        reply, _ = self._agent.ask("service_start", parameters, timeout_s=service.ready_timeout_s + LIVE_TIMEOUT_S)
        self._keeps_services |= service.keep
        code = reply.optional_integer("exit_code", 0, MAX_EXIT_CODE)
        return ServiceStatus(reply.flag("running"), reply.flag("ready"), code, reply.text("note", MAX_NOTE_CHARS))

    def end_live_grading(self) -> None:
        self._agent.ask("grading_end", timeout_s=LIVE_TIMEOUT_S)

    def probe(self, names: Sequence[str] | None = None) -> list[dict[str, Any]]:
        """What the agent's probes find: ``{"name", "ok", "finding", "fix"}`` each."""
        parameters = {} if names is None else {"names": list(names)}
        call = self._channel.start("probe", parameters, timeout_s=PROBE_TIMEOUT_S, max_parts=MAX_PROBES)
        found = [Reply(self._channel, "probe", part).object("probe") for part, _ in call.parts()]
        return [
            {"name": one.text("name", 200), "ok": one.flag("ok"), "finding": one.text("finding", 8000)}
            | {"fix": one.text("fix", 8000)}
            for one in found
        ]

    def crash(self, how: str) -> None:
        """End the machine from inside ("sysrq", "agent") or make its agent fall silent ("silence"); for tests.

        Only in a machine with `test_hooks`; CallRefused in any other.
        """
        call = self._channel.start("crash", {"how": how}, timeout_s=CRASH_TIMEOUT_S)
        if how == "silence":
            with contextlib.suppress(CallRefused):
                self._channel.flush(call)
            return
        with contextlib.suppress(MachineDied):
            call.result()

    def console(self) -> str:
        """The last that came out of the machine's console, harmless to print."""
        return self._machine.console.text()

    def diagnostics(self, directory: str) -> None:
        """Write what helps to see why a test failed into `directory`: console, emulator's errors, QMP trace."""
        write_diagnostics(self._machine, Path(directory))

    def close(self) -> None:
        self._finalizer()
        self._machine.process.wait(END_TIMEOUT_S)  # another thread may be in the middle of closing it

    def _command(self, method: str, parameters: dict[str, Any], timeout_s: float, body: bytes = b"") -> CommandResult:
        start = time.monotonic()
        parameters["max_output_bytes"] = self._max_output_bytes
        reply, output = self._agent.ask(method, parameters, body, timeout_s=timeout_s)
        return command_result(reply, output, start)


def _end(channel: Channel, machine: Qemu) -> None:
    channel.close()
    machine.close()
