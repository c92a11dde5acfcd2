"""Programs that answer while a live machine is graded: the `service_place`, `service_start` and `service_stop` calls.

A service is the student's code or talks to it, and a grader is about to read secrets in the same machine. So it runs as
a user of its own (not the student's, to whose files and processes it could do anything), under the student's filter of
system calls, without a capability, in a control group, PID, IPC and mount namespace of its own. What it sees of
/workdir is a root-owned copy of the files that root was given for it, read-only; nothing else that the student left
exists for it, so a start-up file, a library or a socket left behind has no effect. It shares one thing: the machine's
own network, which has a loopback interface only and in which no student process ever was, unless the task keeps a
service running for the student to reach. Output goes nowhere, so a flood of it costs nobody anything.
"""

from __future__ import annotations

import contextlib
import os
import re
import socket
import time
from dataclasses import dataclass
from typing import Any

from . import groups, syscalls
from .calls import Call, Handler, Machine, Refused
from .places import EMPTY, NOTHING, SERVICES, SHARED, VIEW_ROOT
from .session import Process, Session, launch
from .syscalls import MNT_DETACH, MS_NODEV, MS_NOSUID

__all__ = ["METHODS", "stop_services"]

FIRST_UID = 1100  # one more for each service; 1000 is the student, 1001 submitted code that a grader runs
MAX_SERVICES = 8
SHM_BYTES = 16 << 20
ENV = {"HOME": "/tmp", "LANG": "C.UTF-8", "PATH": "/usr/bin:/bin"}
CONNECT_TIMEOUT_S = 0.5
PAUSE_S = 0.05
ENDS_WITHIN_S = 20.0  # killed processes with much memory take a moment, emulated and on a busy host several seconds
_NAME = re.compile(r"[a-z][a-z0-9-]{0,31}")


@dataclass
class _Service:
    uid: int
    keep: bool
    session: Session | None = None
    process: Process | None = None


def _services(machine: Machine) -> dict[str, _Service]:
    services: dict[str, _Service] = machine.state.setdefault("services", {})
    return services


def _place(machine: Machine, call: Call) -> tuple[dict[str, Any], bytes]:
    """Make the file system of a service; the host then puts its files into `directory`."""
    name, size = call.params.get("name"), call.params.get("bytes")
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise Refused("bad-params", f"{name!r:.50} is no name of a service")
    if isinstance(size, bool) or not isinstance(size, int) or size < 1:
        raise Refused("bad-params", "bytes must be a number of at least 1")
    services = _services(machine)
    if name in services or len(services) >= MAX_SERVICES:
        raise Refused("refused", f"service {name} is there already, or there are {MAX_SERVICES} of them")
    taken = {service.uid for service in services.values()}
    uid = next(uid for uid in range(FIRST_UID, FIRST_UID + MAX_SERVICES) if uid not in taken)
    directory = f"{SERVICES}/{name}"
    os.makedirs(directory, 0o700, exist_ok=True)
    syscalls.mount("tmpfs", directory, "tmpfs", MS_NOSUID | MS_NODEV, f"size={size},nr_inodes=16k,mode=0755")
    services[name] = _Service(uid, keep=call.params.get("keep") is True)
    for inner, mode in (("workdir", 0o755), ("workdir/shared", 0o755), ("tmp", 0o1777)):
        os.mkdir(f"{directory}/{inner}")
        os.chmod(f"{directory}/{inner}", mode)
    return {"directory": directory}, b""


def _start(machine: Machine, call: Call) -> tuple[dict[str, Any], bytes]:
    """Start it and wait until its port takes a connection; whatever it does instead is told and is no error."""
    params = call.params
    name, argv = params.get("name"), params.get("argv")
    service = _services(machine).get(name) if isinstance(name, str) else None
    if service is None or service.process is not None:
        raise Refused("refused", f"service {name!r:.50} has no place yet, or was started before")
    if not isinstance(argv, list) or not argv or not all(isinstance(word, str) and "\0" not in word for word in argv):
        raise Refused("bad-params", "argv must be a list of at least one text, without NUL")
    memory_bytes, process_count = (_count(params, key) for key in ("memory_bytes", "process_count"))
    port, timeout_s = params.get("port"), params.get("timeout_s")
    if isinstance(timeout_s, bool) or not isinstance(timeout_s, int | float) or not 0 < timeout_s <= 3600:
        raise Refused("bad-params", "timeout_s must be more than 0 and at most an hour")
    group = _make_group(machine, str(name), memory_bytes, process_count)
    service.session = launch(machine, _plan(machine, str(name), service.uid, process_count), group)
    null = os.open("/dev/null", os.O_RDWR | os.O_CLOEXEC)
    try:
        service.process = service.session.spawn(argv, env=ENV, cwd="/workdir", stdin=null, stdout=null, stderr=null)
    finally:
        os.close(null)
    ready = _await_port(service.process, port, time.monotonic() + timeout_s)
    code = service.process.wait(0)
    return {"running": code is None, "ready": ready, "exit_code": code, "note": service.process.failure[:500]}, b""


def _count(params: dict[str, Any], name: str) -> int:
    value = params.get(name)
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise Refused("bad-params", f"{name} must be a count of at least 1")
    return value


def _make_group(machine: Machine, name: str, memory_bytes: int, process_count: int) -> str:
    group = f"{groups.ROOT}/service-{name}"
    if machine.use_cgroups:
        os.makedirs(group, exist_ok=True)
        groups.write(group, "memory.max", memory_bytes)
        groups.write(group, "pids.max", process_count)
        groups.write(group, "memory.oom.group", 1)
        groups.no_swap(group)
    return group


def _plan(machine: Machine, name: str, uid: int, process_count: int) -> dict[str, Any]:
    """The view: the system, the copy as /workdir, the author's shared data, and a place of its own to write in."""
    place = f"{SERVICES}/{name}"
    writable = [(f"{place}/tmp", target, False) for target in ("/tmp", "/var/tmp")]
    return {
        "root": VIEW_ROOT,
        "nothing": NOTHING,
        "empty": EMPTY,
        "binds": [(f"{place}/workdir", "/workdir", True), (machine.state["shared"], SHARED, True), *writable],
        "shm_bytes": SHM_BYTES,
        "groups": machine.use_cgroups,
        "max_processes": process_count,
        "real_time": machine.state.get("real_time", False),
        "uid": uid,
        "machine_network": True,
        "fixed_addresses": False,  # it answers others than those who wrote it
    }


def _await_port(process: Process, port: object, deadline: float) -> bool:
    """Whether it accepted a connection in time. Without a port it is ready once it runs."""
    if not isinstance(port, int):
        return process.wait(0) is None
    while time.monotonic() < deadline and process.wait(PAUSE_S) is None:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), CONNECT_TIMEOUT_S):
            return True
    return False


def stop_services(machine: Machine, *, kept_too: bool) -> None:
    """End services with all that they started, and remove their files. The end of a PID namespace is the proof."""
    services = _services(machine)
    for name, service in list(services.items()):
        if service.keep and not kept_too:
            continue
        if service.session is not None and not service.session.close(ENDS_WITHIN_S):
            raise TimeoutError(f"service {name} did not end within {ENDS_WITHIN_S:.0f} s")
        if service.process is not None:
            service.process.close()
        if machine.use_cgroups and os.path.isdir(group := f"{groups.ROOT}/service-{name}"):
            groups.remove(group, ENDS_WITHIN_S)
        syscalls.umount(f"{SERVICES}/{name}", MNT_DETACH)
        del services[name]


def _stop(machine: Machine, _call: Call) -> tuple[dict[str, Any], bytes]:
    stop_services(machine, kept_too=True)
    return {}, b""


METHODS: dict[str, Handler] = {"service_place": _place, "service_start": _start, "service_stop": _stop}
