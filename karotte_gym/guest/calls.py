"""What a handler of the agent gets and may do; every module of the guest that answers calls exports ``METHODS``.

``METHODS: dict[str, Handler]`` maps a method of ``docs/wire.md`` to a function ``handler(machine, call)`` that returns
``(result, body)``. Handlers run in threads of their own, several at once; what must not overlap takes a lock itself.
A handler raises `Refused` to say no. Any other exception is answered with kind ``internal`` and ends nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

__all__ = ["Call", "Handler", "Machine", "Refused"]


class Refused(Exception):
    """The agent says no. `kind` is one of the stable words listed in ``docs/wire.md``."""

    def __init__(self, kind: str, message: str):
        super().__init__(message)
        self.kind = kind


@dataclass
class Call:
    """One request. `part` sends an intermediate frame of the answer and blocks while the host is slow to read.

    What a handler puts into `afterwards` is run when its answer is sent: what the next call would else have to wait for.
    """

    method: str
    params: dict[str, Any]
    body: bytes
    part: Callable[[dict[str, Any], bytes], None]
    afterwards: list[Callable[[], object]] = field(default_factory=list)


@dataclass
class Machine:
    """What the agent knows about the machine it is root of; the one object that handlers share."""

    test_hooks: bool = False  # karotte.test_hooks=1
    use_cgroups: bool = True  # karotte.no_cgroups=1 turns it off
    fixed_addresses: bool = False  # karotte.fixed_addresses=1: of the student's own programs, which may ask for it anyway
    role: str = ""
    session: Any = None  # guest.session.Session while a student's session runs
    limits: Any = None  # guest.limits.Enforcer, made at session_start
    state: dict[str, Any] = field(default_factory=dict)  # a module's own things, under the module's name


Handler = Callable[[Machine, Call], "tuple[dict[str, Any], bytes]"]
