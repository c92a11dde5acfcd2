"""Test hook: the ways in which a machine can be lost, on request. Refused unless the machine was booted for tests."""

from __future__ import annotations

import os
from typing import Any

from .calls import Call, Handler, Machine, Refused

__all__ = ["METHODS"]


def _crash(machine: Machine, call: Call) -> tuple[dict[str, Any], bytes]:
    if not machine.test_hooks:
        raise Refused("refused", "this machine was not started with test hooks")
    how = call.params.get("how")
    if how == "sysrq":
        with open("/proc/sysrq-trigger", "w") as file:
            file.write("b")
    elif how == "agent":
        os._exit(3)
    elif how == "silence":
        machine.state["silent"] = True
    else:
        raise Refused("bad-params", f"how {how!r:.50} is none of sysrq, agent, silence")
    return {}, b""


METHODS: dict[str, Handler] = {"crash": _crash}
