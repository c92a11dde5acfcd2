"""Asking a machine's agent: single answers, a file's contents, and the end of processes, which may need asking again."""

from __future__ import annotations

import time
from typing import Any

from karotte_gym.errors import MachineDied, MachineError
from karotte_gym.sandbox.channel import Channel
from karotte_gym.sandbox.contract import CommandResult
from karotte_gym.sandbox.host_delay import host_delay_s, running_time_s
from karotte_gym.sandbox.replies import Reply
from karotte_gym.sandbox.runtimes.qemu import Qemu
from karotte_gym.scoring import MisbehaviorKind, StudentMisbehavior

__all__ = ["MAX_EXIT_CODE", "MAX_NOTE_CHARS", "AgentCalls", "command_result"]

MAX_EXIT_CODE = 511
MAX_NOTE_CHARS = 8000
MAX_KILL_ROUNDS = 10
MIN_KILL_ROUND_S = 1.0  # less than this of a host's delay decides nothing


class AgentCalls:
    """What every call of `MachineSandbox` goes through. It owns the `channel`, and the machine only as far as to ask it."""

    def __init__(self, machine: Qemu, silence_timeout_s: float):
        self._machine = machine
        self.channel = Channel(
            machine.agent,
            silence_timeout_s=silence_timeout_s,
            kill=machine.kill,
            side_streams=(machine.console, machine.errors, machine.qmp),
            host_delay=lambda: host_delay_s(machine.pid),
            running_time=lambda: running_time_s(machine.pid),
        )

    def ask(
        self, method: str, parameters: dict[str, Any] | None = None, body: bytes = b"", *, timeout_s: float
    ) -> tuple[Reply, bytes]:
        """One call, one answer: its fields and its body."""
        try:
            fields, answer = self.channel.call(method, parameters, body, timeout_s=timeout_s)
        except MachineDied:
            if self._machine.qmp.no_space:  # nothing that the student did: its disk is smaller than it was promised
                raise MachineError("the host's disk is full: a machine could not write its scratch disk") from None
            raise
        return Reply(self.channel, method, fields), answer

    def fetch(self, method: str, path: str, *, max_bytes: int, max_parts: int, timeout_s: float) -> tuple[Reply, bytes, bytes]:
        """A file's contents, in parts: the last answer's fields and body, and the contents, which have the size it says."""
        parameters = {"path": path, "max_bytes": max_bytes}
        call = self.channel.start(method, parameters, timeout_s=timeout_s, max_parts=max_parts, max_part_bytes=max_bytes)
        data = b"".join(body for _, body in call.parts())
        fields, answer = call.result()
        reply = Reply(self.channel, method, fields)
        if reply.integer("size") != len(data):
            self.channel.reject("the machine sent a file of another size than it said")
        return reply, answer, data

    def end_processes(self, method: str, parameters: dict[str, Any], timeout_s: float) -> Reply:
        """Ask until nothing of the student's is left. Misbehaviour when the machine had the processor for all of `timeout_s`.

        The agent's clock runs on while the host does not run the machine: that time is given again.
        """
        given_s = timeout_s
        for _ in range(MAX_KILL_ROUNDS):
            before_s = host_delay_s(self._machine.pid)
            reply, _ = self.ask(method, {**parameters, "timeout_s": given_s}, timeout_s=given_s)
            if not (left := reply.texts("left")):
                return reply
            given_s = min(host_delay_s(self._machine.pid) - before_s, timeout_s)
            if given_s < MIN_KILL_ROUND_S:
                break
        sentence = f"{len(left)} process(es) survived every attempt to end them for {timeout_s:.0f} s"
        raise StudentMisbehavior(MisbehaviorKind.PROCESSES, f"{sentence}: {', '.join(left[:5])[:500]}")


def command_result(reply: Reply, output: bytes, start: float, stdout_bytes: int | None = None) -> CommandResult:
    """What a command that was asked for at `start` came to; without `stdout_bytes` its output is not parted."""
    return CommandResult(
        output=output,
        exit_code=reply.optional_integer("exit_code", 0, MAX_EXIT_CODE),
        timed_out=reply.flag("timed_out"),
        cut_bytes=reply.integer("cut_bytes"),
        duration_s=time.monotonic() - start,
        stdout=b"" if stdout_bytes is None else output[:stdout_bytes],
        stderr=b"" if stdout_bytes is None else output[stdout_bytes:],
        note=reply.text("note", MAX_NOTE_CHARS),
    )
