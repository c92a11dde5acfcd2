"""Real processes of a throw-away user, for tests of what kills, collects and reclaims. Needs root."""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from karotte_gym.guest.calls import Call
from karotte_gym.guest.killer import Killer

needs_root = pytest.mark.skipif(os.getuid() != 0, reason="needs root: makes processes and files of other users")
# Nobody's uid; one for each process of pytest on this host, because a test ends by killing all that its user runs.
UID = 20_000 + os.getpid() % 15_000
PYTHON = "/usr/bin/python3"  # not the one of the tests, which may lie where only root can go


def start(code: str, *, uid: int = UID, **options: Any) -> subprocess.Popen[bytes]:
    """Run Python code as the user and return once it printed its first line."""
    process = subprocess.Popen(
        [PYTHON, "-I", "-S", "-c", code], user=uid, group=uid, extra_groups=[], stdout=subprocess.PIPE, **options
    )
    assert process.stdout is not None
    assert process.stdout.readline() == b"up\n"
    return process


@contextlib.contextmanager
def nobody_left(uid: int = UID) -> Iterator[None]:
    """Whatever the test finds, nothing of the user survives it."""
    killer = Killer()
    try:
        yield
    finally:
        for _ in range(3):
            killer.kill_all_of(uid)
        killer.close()


def run_as(uid: int, work: Callable[[], object]) -> None:
    """Call a function in a forked child that has become the user; AssertionError when it raises."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            os.setgroups([])
            os.setresgid(uid, uid, uid)
            os.setresuid(uid, uid, uid)
            work()
            code = 0
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


class Answer:
    """A call whose parts are kept."""

    def __init__(self, method: str, **params: Any):
        self.parts: list[tuple[dict[str, Any], bytes]] = []
        self.body = params.pop("body", b"")
        self.call = Call(method, params, self.body, lambda part, body: self.parts.append((part, body)))
