"""Whether the programs that the tools of a task stand on are there and work, started as the student starts them."""

from __future__ import annotations

import os
import struct
import subprocess
from collections.abc import Iterator

from ..shell_memory import symbol_offsets
from .tree import Finding, Probe, Tree

__all__ = ["LIVE_PROBES", "PROBES"]

_TIMEOUT_S = 30.0
_BARE = {"PATH": "/usr/bin:/bin", "HOME": "/workdir", "LANG": "C.UTF-8"}


def bash_symbols(tree: Tree) -> Iterator[Finding]:
    """The end of a command is known from bash's own variables; a static or stripped bash has no names for them."""
    try:
        symbol_offsets.__wrapped__(tree.real("/bin/bash"))  # without its cache: another tree, another bash
    except (OSError, RuntimeError, StopIteration, IndexError, struct.error) as error:
        fix = "install the distribution's dynamically linked bash in the Containerfile"
        yield Finding(f"/bin/bash can't be watched: {error or 'it has no dynamic symbols'}", fix)


def bash_starts(_tree: Tree) -> Iterator[Finding]:
    """Started as the shell tool starts it."""
    yield from _says(["/bin/bash", "--noprofile", "--norc", "-c", "echo $((40 + 2))"], b"42\n", "install bash")


def python_starts_isolated(_tree: Tree) -> Iterator[Finding]:
    """Isolated mode must ignore directory, environment and user site: graders rely on it."""
    code = "import sys; print(sys.flags.isolated, sys.flags.no_user_site, sys.path[0] != '')"
    env = {"PYTHONPATH": "/workdir", "PYTHONSTARTUP": "/workdir/x", "PYTHONHOME": "/nowhere"}
    yield from _says(["/usr/bin/python3", "-I", "-c", code], b"1 1 True\n", "install Debian's python3", env)


def python_is_recent(_tree: Tree) -> Iterator[Finding]:
    """The guest's own code and the grading runner are written for 3.11."""
    code = "import sys; print(sys.version_info >= (3, 11))"
    yield from _says(["/usr/bin/python3", "-I", "-c", code], b"True\n", "install Python 3.11 or later as /usr/bin/python3")


def pseudo_terminals(_tree: Tree) -> Iterator[Finding]:
    """`script`, debuggers and many test programs talk to a terminal of their own making, which harms nobody."""
    try:
        for descriptor in os.openpty():
            os.close(descriptor)
    except OSError as error:
        yield Finding(f"the student can't open a pseudo-terminal: {error}", "mount devpts in the session; see kernel.pty")


PROBES: tuple[Probe, ...] = (bash_symbols,)
LIVE_PROBES: tuple[Probe, ...] = (bash_starts, python_starts_isolated, python_is_recent, pseudo_terminals)


def _says(argv: list[str], expected: bytes, fix: str, env: dict[str, str] | None = None) -> Iterator[Finding]:
    shown = " ".join(argv)
    where = "/workdir" if os.path.isdir("/workdir") else "/"
    try:
        result = subprocess.run(
            argv, env=_BARE | (env or {}), cwd=where, stdin=subprocess.DEVNULL, capture_output=True, timeout=_TIMEOUT_S
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        yield Finding(f"`{shown}` can't be run: {error}", fix)
        return
    if result.stdout != expected:
        yield Finding(f"`{shown}` gave {result.returncode}, {(result.stdout + result.stderr)[:200]!r}", fix)
