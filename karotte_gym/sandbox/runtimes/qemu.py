"""One QEMU process and the host's ends of everything that leads into it. Knows nothing of snapshots or of the agent.

QEMU starts through the warden: as a user of its own when we are root, without new privileges, with bounded files and
descriptors, under its own seccomp filter, and dead as soon as the harness is.
"""

from __future__ import annotations

import contextlib
import os
import socket
import stat
from collections.abc import Mapping

from karotte_gym.sandbox import host_clock, warden
from karotte_gym.sandbox.rundir import RunDirectory
from karotte_gym.sandbox.runtimes import qemu_binary
from karotte_gym.sandbox.runtimes import qemu_command as command
from karotte_gym.sandbox.runtimes.qemu_qmp import Qmp
from karotte_gym.sandbox.tail import Tail

__all__ = ["END_TIMEOUT_S", "Qemu", "launch"]

MIB = 1024 * 1024
MAX_OPEN_FILES = 256  # QEMU needs about 40
OVERHEAD_BYTES = 64 * MIB  # tables of a full overlay: 8 bytes for 64 KiB, and what a save writes
LAST_WORDS = 1500  # characters of a log in an error message
END_TIMEOUT_S = 10.0  # a killed emulator is gone in milliseconds; a swapping host takes longer


class Qemu:
    """A running emulator. `close` ends it and removes what it had on the host; any thread may call it."""

    def __init__(
        self,
        process: warden.SpawnedProcess,
        agent: socket.socket,
        qmp: Qmp,
        console: Tail,
        errors: Tail,
        run: RunDirectory,
    ):
        self.process = process
        self.agent = agent
        self.qmp = qmp
        self.console = console
        self.errors = errors
        self.run_directory = run
        self._owner = os.getpid()

    @property
    def pid(self) -> int:
        return self.process.pid

    def kill(self) -> bool:
        """End the process; whether it is gone."""
        if os.getpid() != self._owner:  # a forked child has copies of descriptors, but the machine is its parent's
            return True
        self.process.kill()
        return self.process.wait(END_TIMEOUT_S)

    def last_words(self) -> str:
        """The ends of what QEMU and the machine's console said, to be appended to a sentence; "" when nothing."""
        said = [f"\n{name}: {text[-LAST_WORDS:]}" for name, tail in self._tails() if (text := tail.text().strip())]
        return "".join(said)

    def _tails(self) -> tuple[tuple[str, Tail], ...]:
        return ("emulator", self.errors), ("console", self.console)

    def close(self) -> None:
        """Idempotent. In a forked child it only closes the copies of the descriptors."""
        self.kill()
        for part in (self.agent, self.qmp, self.console, self.errors):
            part.close()
        self.process.release()
        if os.getpid() == self._owner:
            self.run_directory.close()
        else:
            self.run_directory.release()


def launch(hull: command.Hull, files: Mapping[int, int], run: RunDirectory, *, disk_bytes: int, restore: bool) -> Qemu:
    """Start QEMU with `files` ({number of `qemu_command`: our descriptor}); `run` is the machine's from here on."""
    binary = qemu_binary.find()
    with contextlib.ExitStack() as theirs, contextlib.ExitStack() as ours:
        ours.callback(run.close)
        agent, agent_end = socket.socketpair()
        qmp, qmp_end = socket.socketpair()
        console, console_end = socket.socketpair()
        errors, errors_end = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        null = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
        for end in (agent_end, qmp_end, console_end):
            theirs.callback(end.close)
        theirs.callback(os.close, errors_end)
        theirs.callback(os.close, null)
        control = Qmp(qmp)
        if restore:
            control.send_ahead(command.load_commands())
        parts = (control, Tail(console.detach()), Tail(errors))
        for part in (agent, *parts):
            ours.callback(part.close)
        standard = {0: null, 1: null, 2: errors_end}
        ends = {command.AGENT: agent_end.fileno(), command.QMP: qmp_end.fileno(), command.CONSOLE: console_end.fileno()}
        process = warden.spawn(
            [binary.path, *command.arguments(hull, restore=restore, tsc_khz=_tsc_khz(hull, restore))],
            {**standard, **ends, **files},
            uid=warden.OWN_UID if os.geteuid() == 0 else None,
            gid=_group(hull.accelerator),
            rlimits={"NOFILE": MAX_OPEN_FILES, "CORE": 0, "FSIZE": disk_bytes + disk_bytes // 4096 + OVERHEAD_BYTES},
            directory=run.path,
        )
        ours.pop_all()
        return Qemu(process, agent, *parts, run)


def _tsc_khz(hull: command.Hull, restore: bool) -> int | None:
    if restore or hull.accelerator != "tcg" or hull.architecture != "x86_64":
        return None
    return host_clock.tsc_khz()


def _group(accelerator: str) -> int | None:
    """The group that may open the hardware accelerator; None: the machine's own."""
    if accelerator != "kvm" or os.geteuid() != 0:
        return None
    facts = os.stat("/dev/kvm")
    return facts.st_gid if facts.st_gid and not facts.st_mode & stat.S_IWOTH else None
