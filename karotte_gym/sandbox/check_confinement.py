"""What one live machine really confines: its contracts, and every way out that the probes try as the student."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass

from karotte_gym.config import Limits
from karotte_gym.guest import probes
from karotte_gym.sandbox import machines
from karotte_gym.sandbox.check_image import Finding, probe_session
from karotte_gym.sandbox.contract import Contract, MachineSpec
from karotte_gym.sandbox.progress import Progress

__all__ = ["EXPECTED", "Confinement", "check_confinement", "shortfalls"]

# Without control groups the agent's watchdog holds memory and processes; disk and network are the kernel's either way.
EXPECTED = {
    True: dict.fromkeys(("memory", "processes", "disk_bytes", "disk_files", "network"), "prevented"),
    False: {"memory": "detected_and_reaped", "processes": "detected_and_reaped"}
    | dict.fromkeys(("disk_bytes", "disk_files", "network"), "prevented"),
}
_STRENGTH = ("not_supported", "detected_and_reaped", "prevented")


@dataclass(frozen=True, slots=True)
class Confinement:
    """A measured machine. `wrong` says what is less than it should be; empty when all is well."""

    runtime: str
    use_cgroups: bool
    contracts: tuple[Contract, ...]
    findings: tuple[Finding, ...]
    wrong: tuple[str, ...]


def check_confinement(use_cgroups: bool = True, progress: Progress | None = None) -> Confinement:
    """Start a machine and a session in it, and try to get out. Raises what `machines.start` raises."""
    spec = MachineSpec(role="student", use_cgroups=use_cgroups)
    machines.prepare(spec, progress)
    with contextlib.closing(machines.start(spec)) as sandbox:
        contracts = sandbox.start_session(Limits())
        findings = probe_session(sandbox, list(probes.CONFINEMENT))
        runtime = sandbox.runtime
    failed = [f"{found.name}: {found.finding}" for found in findings if not found.ok]
    wrong = (*shortfalls(contracts, use_cgroups), *failed)
    return Confinement(runtime, use_cgroups, contracts, tuple(findings), wrong)


def shortfalls(contracts: Sequence[Contract], use_cgroups: bool) -> list[str]:
    """A sentence for each contract that is missing or weaker than it should be in this kind of machine."""
    held = {contract.resource: contract for contract in contracts}
    wrong = []
    for resource, wanted in EXPECTED[use_cgroups].items():
        contract = held.get(resource)
        if contract is None:
            wrong.append(f"{resource}: there is no contract")
        elif _STRENGTH.index(contract.enforcement) < _STRENGTH.index(wanted):
            wrong.append(f"{resource}: {contract.enforcement} instead of {wanted}: {contract.evidence}")
    return wrong
