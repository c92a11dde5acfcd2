"""What a machine leaves for whoever has to find out why it failed."""

from __future__ import annotations

from pathlib import Path

from karotte_gym.errors import MachineError
from karotte_gym.sandbox.runtimes.qemu import Qemu

__all__ = ["write_diagnostics"]

QMP_TIMEOUT_S = 2.0


def write_diagnostics(machine: Qemu, directory: Path) -> None:
    """Write ``console.log`` (the agent logs there too), ``emulator.log`` and ``qmp.log`` into `directory`."""
    directory.mkdir(parents=True, exist_ok=True)
    for question in ("query-status", "query-blockstats"):
        try:
            machine.qmp.command(question, timeout_s=QMP_TIMEOUT_S)
        except MachineError as error:
            machine.qmp.trace.append(f"! {error}")
    for name, text in (
        ("console.log", machine.console.text()),
        ("emulator.log", machine.errors.text()),
        ("qmp.log", "\n".join(machine.qmp.trace)),
    ):
        (directory / name).write_text(text + "\n", encoding="utf-8")
