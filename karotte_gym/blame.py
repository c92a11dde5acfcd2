"""Who is to blame for what a student's machine did: `misbehavior_of`.

The machine is the student's from its session on, so its death is the student's doing. So is an agent that fails at
custody or in a live grading: a student that found out how would have its losing episodes dropped. What only we can get
wrong, a call that is none, raises; so does a host that did not run the machine.
"""

from __future__ import annotations

from karotte_gym.errors import CallRefused, MachineDied, MachineError
from karotte_gym.scoring import MisbehaviorKind, StudentMisbehavior

__all__ = ["OURS", "misbehavior_of"]

OURS = ("bad-params", "unknown-method")
_KIND_OF_DEATH = {
    "exited": MisbehaviorKind.MACHINE_ENDED,
    "silent": MisbehaviorKind.MACHINE_SILENT,
    "protocol": MisbehaviorKind.MACHINE_PROTOCOL,
}


def misbehavior_of(error: StudentMisbehavior | MachineDied | CallRefused) -> StudentMisbehavior:
    """The misbehaviour that this error of a student's machine amounts to. MachineError for a mistake of ours."""
    if isinstance(error, StudentMisbehavior):
        return error
    if isinstance(error, MachineDied):
        if error.cause == "starved":
            raise MachineError(f"this host has too little processor time for its machines, run fewer: {error}") from error
        kind = _KIND_OF_DEATH.get(error.cause, MisbehaviorKind.MACHINE_ENDED)
        return StudentMisbehavior(kind, f"the machine ended: {error}")
    if error.kind in OURS:
        raise MachineError(f"the agent refused a call of ours ({error.kind}): {error}") from error
    return StudentMisbehavior(MisbehaviorKind.AGENT_FAILED, f"the machine's agent failed at custody: {error}")
