"""What the student may use, who holds it to that, and how: the `Enforcer`, and the calls that set and show limits.

For each resource there is a contract: "prevented" (the kernel refuses), "detected_and_reaped" (our watchdog ends the
student's processes after the fact) or "not_supported". Which one it is was *seen* by a probe when the machine was
prepared (`limits_probe`), for some kernels accept the number and enforce nothing.
"""

from __future__ import annotations

from typing import Any

from . import quota
from .calls import Call, Handler, Machine, Refused
from .confine import STUDENT_UID
from .limits_cgroup import GroupLimits
from .limits_watchdog import Watchdog

__all__ = ["METHODS", "NAMES", "Enforcer"]

MIB = 1 << 20
NAMES = {"memory_bytes": "memory", "process_count": "processes", "file_bytes": "disk_bytes", "file_count": "disk_files"}
DEFAULT_PROCESSES = 2048
# Of what the kernel has left for programs (MemTotal): the agent, the leader, PID 1 and what root's hooks may need.
FOR_ROOT_BYTES = 128 * MIB
LEAST_BYTES = 64 * MIB
SHM_SHARE = 2  # /dev/shm, and System V segments, may each take one half of the student's memory
SHM_SHARE_UNGROUPED = 4  # nothing counts them there before the watchdog looks: both together stay under a half
Limit = int | None


def default_memory_bytes() -> int:
    """The machine's memory less what root needs."""
    with open("/proc/meminfo") as file:
        total = int(file.readline().split()[1]) * 1024
    return max(LEAST_BYTES, total - FOR_ROOT_BYTES)


class Enforcer:
    """Holds the limits of one machine. `evidence` maps a resource to (enforcement, sentence) as the probes saw it."""

    def __init__(self, machine: Machine, evidence: dict[str, tuple[str, str]]):
        self._machine = machine
        self._evidence = evidence
        self._groups = GroupLimits()
        self._watchdog = Watchdog(machine)
        self._session: Any = None
        self.network: dict[str, Any] | None = None

    def shm_bytes(self, memory_bytes: Limit) -> int:
        """How large /dev/shm is for a session with that much memory (None: the default)."""
        share = SHM_SHARE if self._machine.use_cgroups else SHM_SHARE_UNGROUPED
        return (memory_bytes or default_memory_bytes()) // share

    def begin(self, session: Any, params: dict[str, Any]) -> list[dict[str, Any]]:
        """Put the limits of a new session in force; absent or null is the default. Returns all contracts."""
        values = checked(params)
        disk_bytes, disk_files = quota.default_limits()
        defaults = {
            "memory_bytes": default_memory_bytes(),
            "process_count": DEFAULT_PROCESSES,
            "file_bytes": disk_bytes,
            "file_count": disk_files,
        }
        self._session = session
        full = {name: default if values.get(name) is None else values[name] for name, default in defaults.items()}
        self._apply(full)
        self._watchdog.begin(session)
        return [*self._contracts(full), *([self.network] if self.network else [])]

    def change(self, params: dict[str, Any]) -> list[dict[str, Any]]:
        """Change the limits that are named; null lifts. Returns their contracts."""
        values = checked(params)
        self._apply(values)
        return self._contracts(values)

    def end(self) -> None:
        """The session is over: nothing is watched any more, and nothing of its limits stays."""
        self._watchdog.end()
        self._session = None

    def report(self) -> dict[str, Limit]:
        """The limits as whatever enforces them has them."""
        return {name: self._read(name) for name in NAMES}

    def _apply(self, values: dict[str, Limit]) -> None:
        for name, value in values.items():
            if self._prevented(name) and name in ("memory_bytes", "process_count"):
                self._groups.put(name, value)
            elif self._prevented(name):
                self._put_quota(name, value)
            else:
                self._watchdog.put(name, value)
        if "memory_bytes" in values and self._session is not None:
            self._session.tell("shm-size", bytes=self.shm_bytes(values["memory_bytes"]))
        if "process_count" in values and not self._prevented("process_count"):
            self._floor(values["process_count"])

    def _floor(self, count: Limit) -> None:
        """RLIMIT_NPROC counts the uid's threads: a wall behind the watchdog, which needs a moment to look."""
        if self._session is not None:
            self._session.tell("max-processes", value=count)
            self._watchdog.raise_floor(self._session, count)

    def _put_quota(self, name: str, value: Limit) -> None:
        total, count = quota.get(STUDENT_UID)
        quota.put(STUDENT_UID, (value, count) if name == "file_bytes" else (total, value))

    def _read(self, name: str) -> Limit:
        if not self._prevented(name):
            return self._watchdog.get(name)
        if name in ("memory_bytes", "process_count"):
            return self._groups.get(name)
        return quota.get(STUDENT_UID)[name == "file_count"]

    def _prevented(self, name: str) -> bool:
        return self._evidence[NAMES[name]][0] == "prevented"

    def _contracts(self, values: dict[str, Limit]) -> list[dict[str, Any]]:
        contracts = []
        for name, value in values.items():
            enforcement, sentence = self._evidence[NAMES[name]]
            limit = self._read(name) if value is not None else None
            contracts.append({"resource": NAMES[name], "enforcement": enforcement, "limit": limit, "evidence": sentence})
        return contracts


def checked(params: dict[str, Any]) -> dict[str, Limit]:
    """The limits among a call's parameters. Refused when one is no count."""
    values: dict[str, Limit] = {}
    for name in NAMES:
        if name not in params:
            continue
        value = params[name]
        if value is not None and (isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 2**62):
            raise Refused("bad-params", f"{name} must be a count or null, not {value!r:.50}")
        values[name] = value
    return values


def _enforcer(machine: Machine) -> Enforcer:
    if machine.session is None:
        raise Refused("no-session", "limits are held while a session runs; none does")
    enforcer: Enforcer = machine.limits
    return enforcer


def _set(machine: Machine, call: Call) -> tuple[dict[str, Any], bytes]:
    with machine.state["session-lock"]:
        return {"contracts": _enforcer(machine).change(call.params)}, b""


def _get(machine: Machine, _call: Call) -> tuple[dict[str, Any], bytes]:
    return dict(_enforcer(machine).report()), b""


METHODS: dict[str, Handler] = {"limits_get": _get, "limits_set": _set}
