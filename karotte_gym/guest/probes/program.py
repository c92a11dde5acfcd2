"""What a program of the student's finds at its start: environment, descriptors, terminal, ignored signals.

Asked of real programs that are started as tools start them. A forked function of ours could not tell: it inherits the
leader's environment, and descriptors that an exec would close.
"""

from __future__ import annotations

import os
from typing import Any

__all__ = ["describe_program"]

TIMEOUT_S = 20.0
_MAX_BYTES = 60_000  # fits into a pipe, so nobody has to read while the program runs


def describe_program(session: Any) -> dict[str, Any]:
    """Names of variables, descriptors and their targets, whether there is a terminal, numbers of ignored signals."""
    status = _output(session, ["/bin/cat", "/proc/self/status"])
    fields = dict(line.split(":\t", 1) for line in status.splitlines() if ":\t" in line)
    ignored = int(fields["SigIgn"], 16)
    variables = _output(session, ["/bin/cat", "/proc/self/environ"]).split("\0")
    return {
        "environ": sorted(variable.partition("=")[0] for variable in variables if variable),
        "descriptors": _descriptors(_output(session, ["/bin/ls", "-l", "/proc/self/fd"])),
        "terminal": _output(session, ["/bin/cat", "/proc/self/stat"]).rpartition(")")[2].split()[4] != "0",
        "ignored": [number for number in range(1, 32) if ignored >> (number - 1) & 1],
    }


def _descriptors(listing: str) -> dict[str, str]:
    found = {}
    for line in listing.splitlines():
        name, arrow, target = line.partition(" -> ")
        if arrow and not (target.startswith("/proc/") and target.endswith("/fd")):  # the listing itself
            found[name.split()[-1]] = target
    return found


def _output(session: Any, argv: list[str]) -> str:
    answer, told = os.pipe2(os.O_CLOEXEC)
    null = os.open("/dev/null", os.O_RDWR | os.O_CLOEXEC)
    try:
        with session.spawn(argv, stdin=null, stdout=told, stderr=null) as process:
            code = process.wait(TIMEOUT_S)
        os.set_blocking(answer, False)
        if code != 0:
            raise RuntimeError(f"{' '.join(argv)} as the student ended with {code}")
        return os.read(answer, _MAX_BYTES).decode("utf-8", "backslashreplace")
    finally:
        for descriptor in (answer, told, null):
            os.close(descriptor)
