"""Probes of image and confinement: each tries one thing that must not be possible and tells what to do when it is.

The call ``probe`` runs them in a machine whose session is running. ``karotte-gym check image`` and ``check
confinement`` ask for them; ``names`` are the keys of `catalogue.ALL`.
"""

from __future__ import annotations

import json
from typing import Any

from ..calls import Call, Handler, Machine, Refused
from .catalogue import ALL, AS_ROOT, AS_STUDENT, CONFINEMENT
from .network import claim
from .program import describe_program
from .run import as_root, as_student, merge

__all__ = ["ALL", "AS_ROOT", "AS_STUDENT", "CONFINEMENT", "METHODS", "claim"]

TIMEOUT_S = 120.0  # of each of the two runs; measured under emulation: 12 s and 5 s
MAX_BYTES = 8 * 1024 * 1024


def _probe(machine: Machine, call: Call) -> tuple[dict[str, Any], bytes]:
    names = _names(call.params.get("names"))
    session = machine.session
    if session is None:
        raise Refused("no-session", "start a session first: probes run as the student")
    limits: dict[str, Any] = {"timeout_s": TIMEOUT_S, "max_bytes": MAX_BYTES}
    seen = session.call_as_student(as_student, names, describe_program(session), **limits)
    below = machine.state["launcher"].call(as_root, names, **limits) if AS_ROOT.keys() & set(names) else b"{}"
    for found in merge(names, json.loads(seen), json.loads(below)):
        call.part({"probe": found}, b"")
    return {"count": len(names)}, b""


def _names(wanted: object) -> list[str]:
    if wanted is None:
        return list(ALL)
    if not isinstance(wanted, list) or not all(isinstance(name, str) and name in ALL for name in wanted):
        raise Refused("bad-params", "names must be a list of names of probes")
    return [name for name in ALL if name in wanted]


METHODS: dict[str, Handler] = {"probe": _probe}
