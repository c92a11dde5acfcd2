"""Makes a student's machine fit for grading in it, and afterwards for the student again: `grading_begin`, `grading_end`.

Grading data may come only when nobody is left who could read it: a session that runs, or one process of the student's
uid anywhere, and the call is refused. The data then lies in file systems of its own in memory, which no view of a
session or a service shows; they are unmounted at the end, so that nothing has to be searched for and deleted. Empty
ones cover /tmp and /var/tmp meanwhile, where the student may have left whatever a program looks for by name.
"""

from __future__ import annotations

import os
from typing import Any

from . import syscalls
from .calls import Call, Handler, Machine, Refused
from .confine import STUDENT_UID
from .process_table import living
from .services import stop_services
from .syscalls import MNT_DETACH, MS_NODEV, MS_NOSUID
from .view import loopback_up

__all__ = ["METHODS"]

PLACES = (
    ("/root_data", 0o700),
    ("/grading_data", 0o700),
    ("/grade", 0o700),
    ("/submission", 0o755),
    ("/tmp", 0o1777),
    ("/var/tmp", 0o1777),
)


def _begin(machine: Machine, call: Call) -> tuple[dict[str, Any], bytes]:
    size = call.params.get("bytes")
    if isinstance(size, bool) or not isinstance(size, int) or size < 1:
        raise Refused("bad-params", "bytes must be a number of at least 1")
    with machine.state["session-lock"]:
        if machine.role != "student" or "live-grading" in machine.state:
            raise Refused("refused", "this is no student's machine, or it is being graded already")
        if machine.session is not None:
            raise Refused("session-running", "a student's session is running; end it first")
        left = living(STUDENT_UID)
        if left:
            raise Refused("refused", f"{len(left)} process(es) of the student's are alive")
        loopback_up()
        machine.state["live-grading"] = []
        for path, mode in PLACES:
            os.makedirs(path, exist_ok=True)
            syscalls.mount("tmpfs", path, "tmpfs", MS_NOSUID | MS_NODEV, f"size={size},mode={mode:o}")
            machine.state["live-grading"].append(path)
    return {}, b""


def _end(machine: Machine, _call: Call) -> tuple[dict[str, Any], bytes]:
    with machine.state["session-lock"]:
        stop_services(machine, kept_too=False)
        for path in reversed(machine.state.pop("live-grading", [])):
            syscalls.umount(path, MNT_DETACH)
    seen = [path for path in ("/root_data", "/grading_data", "/grade") if os.path.isdir(path) and os.listdir(path)]
    if seen:
        raise OSError(f"grading data is still there: {seen}")
    return {}, b""


METHODS: dict[str, Handler] = {"grading_begin": _begin, "grading_end": _end}
