"""First call after every restore: what all clones of a snapshot would otherwise share, entropy, time and name.

Two clones of one snapshot have the same random number generator in the same state; a student that knows the snapshot
would know the "random" numbers of the episode. The seed is credited and the generator told to reseed at once.
"""

from __future__ import annotations

import fcntl
import functools
import os
import re
import socket
import struct
import time
from typing import Any

from .calls import Call, Handler, Machine, Refused
from .rehearsal import rehearse

__all__ = ["METHODS"]

_RNDADDENTROPY, _RNDRESEEDCRNG = 0x40085203, 0x5207
SEED_BYTES = 32
_SEED = f"[0-9a-f]{{{2 * SEED_BYTES}}}"


def _renew(machine: Machine, call: Call) -> tuple[dict[str, Any], bytes]:
    seed, now, name = _checked(call.params)
    descriptor = os.open("/dev/urandom", os.O_RDWR | os.O_CLOEXEC)
    try:
        fcntl.ioctl(descriptor, _RNDADDENTROPY, struct.pack("=ii", len(seed) * 8, len(seed)) + seed)
        fcntl.ioctl(descriptor, _RNDRESEEDCRNG)
    finally:
        os.close(descriptor)
    time.clock_settime_ns(time.CLOCK_REALTIME, now)
    socket.sethostname(name)
    machine.state["renewed"] = True
    if machine.role == "grader":
        call.afterwards.append(functools.partial(rehearse, machine))
    return {}, b""


def _checked(params: dict[str, Any]) -> tuple[bytes, int, str]:
    seed, now, name = params.get("seed"), params.get("time_ns"), params.get("hostname", "karotte")
    if not isinstance(seed, str) or not re.fullmatch(_SEED, seed):
        raise Refused("bad-params", f"seed must be {SEED_BYTES} bytes in hexadecimal digits")
    if isinstance(now, bool) or not isinstance(now, int) or not 0 < now < 2**62:
        raise Refused("bad-params", "time_ns must be nanoseconds since 1970")
    if not isinstance(name, str) or not re.fullmatch(r"[a-z0-9-]{1,63}", name):
        raise Refused("bad-params", "hostname must be 1 to 63 of a-z, 0-9 and -")
    return bytes.fromhex(seed), now, name


METHODS: dict[str, Handler] = {"renew": _renew}
