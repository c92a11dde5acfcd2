"""Between fork and exec: a launcher's child arranges its descriptors, gives up its rights, and becomes what was asked for.

It never returns to the launcher's code. What goes wrong here is told by the status pipe, which no program inherits.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import pickle
import signal
import sys
import traceback
from collections.abc import Callable
from typing import Any

from . import syscalls
from .spawning import FAILURE

__all__ = ["become", "keep_only"]

Confine = Callable[[bool], None]  # told whether the process comes first
CANT_EXECUTE, NOT_FOUND = 126, 127  # what shells answer, too
MAX_REASON_BYTES = 2000  # less than a pipe takes at once


def keep_only(*keep: int) -> None:
    """Close every descriptor but standard ones and `keep`."""
    previous = 2
    for fd in sorted(fd for fd in keep if fd > 2):
        syscalls.close_range(previous + 1, fd - 1)
        previous = fd
    syscalls.close_range(previous + 1)


def become(request: dict[str, Any], fds: list[int], confine: Confine, told: int, results: int) -> None:
    """Everything between fork and exec; never returns. What goes wrong is told by the status pipe."""
    code = CANT_EXECUTE
    try:
        signal.set_wakeup_fd(-1)
        os.setsid()
        if results >= 0:
            _run_function(request, confine, results)
        told = _arrange(fds, request["targets"], told)
        confine(request["first"])
        os.chdir(request["cwd"])
        _execute(request["argv"], request["env"])
    except BaseException as error:
        if isinstance(error, FileNotFoundError):
            code = NOT_FOUND
        _tell(told, code, error)
    finally:
        os._exit(code)


def _tell(told: int, code: int, error: BaseException) -> None:
    text = f"{error.strerror}: {error.filename}" if isinstance(error, OSError) and error.filename else str(error)
    data = text.encode(errors="replace")[:MAX_REASON_BYTES]
    with contextlib.suppress(OSError):
        os.write(told, FAILURE.pack(b"F", code, len(data)) + data)


def _execute(argv: list[str], env: dict[str, str]) -> None:
    path = argv[0]
    candidates = [path] if "/" in path else [f"{folder}/{path}" for folder in env.get("PATH", "").split(":") if folder]
    failure: OSError = FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
    for candidate in candidates:
        try:
            os.execve(candidate, argv, env)
        except OSError as error:
            error.filename = candidate
            if error.errno != errno.ENOENT or len(candidates) == 1:
                failure = error
    raise failure


def _arrange(fds: list[int], targets: tuple[int, ...], told: int) -> int:
    """Put each received descriptor at the number asked for; no other survives exec. Returns `told`'s new number."""
    free = max(targets) + 1
    parked = [fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, free) for fd in (told, *fds)]
    syscalls.close_range(3, syscalls.LAST_FD, syscalls.CLOSE_RANGE_CLOEXEC)
    for fd, target in zip(parked[1:], targets, strict=True):
        os.dup2(fd, target, inheritable=True)
    return parked[0]


def _run_function(request: dict[str, Any], confine: Confine, results: int) -> None:
    """Run a function with the child's rights and end. Nothing but the result pipe is open in it."""
    null = os.open("/dev/null", os.O_RDWR)
    for number in (0, 1, 2):
        os.dup2(null, number)
    keep_only(results)
    confine(request["first"])
    try:
        function: Any = sys.modules[request["module"]]
        for part in request["name"].split("."):
            function = getattr(function, part)
        data = b"R" + function(*pickle.loads(request["args"]))
    except BaseException:
        data = b"E" + traceback.format_exc(limit=-3).encode(errors="replace")[-3000:]
    view = memoryview(data)
    with contextlib.suppress(BrokenPipeError):
        while view:
            view = view[os.write(results, view) :]
    os._exit(0)
