"""Removes everything that a user owns, wherever it lies, and names what could not be removed: the `delete_files` call.

Kill the user's processes first. Even so the walk trusts nothing: it goes by descriptors, not by paths (trees deeper
than PATH_MAX and any recursion limit), checks on the way up that it is where it came from (directories renamed under
it), takes the mounts from the kernel's list (disks mounted below a virtual file system), and removes kernel objects
by their creator (`ipc`). It is bounded in time: what is left then is named.

`include` and `exclude` are lists of patterns for leading path components: ``/workdir/da*`` stands for every matching
entry of /workdir and all below. An empty `include` is everything.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Any

from .aliases import Aliases
from .calls import Call, Handler, Machine, Refused
from .ipc import remove_ipc
from .left_over import Left
from .mounts import Mount, writable_mounts
from .nofollow import Problem, open_directory, split
from .patterns import Selection
from .sweep_tree import OutOfTime, Sweeper
from .tree_walk import Moved

__all__ = ["DEFAULT_EXCLUDE", "METHODS", "delete_everything"]

DEFAULT_EXCLUDE = ("/proc", "/sys")
MAX_TRIES = 20  # of one mount, when directories are renamed under the walk


def delete_everything(uid: int, selection: Selection, timeout_s: float, *, session_pid: int | None = None) -> Left:
    """Remove the files and IPC objects of `uid` in this namespace and, with `session_pid`, in that process's too."""
    deadline = time.monotonic() + timeout_s
    left = Left()
    if selection.everywhere:
        remove_ipc(uid, left, pid=session_pid)
    mounts = writable_mounts() + ([] if session_pid is None else writable_mounts(session_pid))
    concerned = [mount for mount in mounts if selection.concerns(mount.parts)]
    covered = [
        mount
        for mount in concerned
        if not _clean_mount(mount, lambda it: Sweeper(uid, it, Aliases(it, mounts), selection, left, deadline), left)
    ]
    reached = {mount.device for mount in concerned if mount not in covered}
    for mount in covered:
        if mount.device not in reached:
            left.add(f"{mount.path}: covered by another mount")
    return left


def _clean_mount(mount: Mount, sweeper: Callable[[Mount], Sweeper], left: Left) -> bool:
    """False when the mount can't be reached because something is mounted over it."""
    for _ in range(MAX_TRIES):
        descriptor = _open_mount(mount)
        if descriptor is None:
            return False
        try:
            sweeper(mount).sweep(descriptor)
            return True
        except Moved:
            continue  # what was renamed is looked for again, from the top
        except OutOfTime:
            left.add(f"{mount.path}: the time was up")
            return True
    left.add(f"{mount.path}: directories were renamed under each of {MAX_TRIES} walks")
    return True


def _open_mount(mount: Mount) -> int | None:
    """The mount's top directory; None when something else is mounted over it (then nobody reaches it either)."""
    descriptor = os.open(mount.root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    for part in [] if mount.path == "/" else split(mount.path):
        try:
            below = open_directory(part, descriptor, mount.path)
        except Problem:
            return None
        finally:
            os.close(descriptor)
        descriptor = below
    if os.fstat(descriptor).st_dev != mount.device:
        os.close(descriptor)
        return None
    return descriptor


def _delete_files(machine: Machine, call: Call) -> tuple[dict[str, Any], bytes]:
    params = call.params
    uid, timeout_s = params.get("uid"), params.get("timeout_s", 60.0)
    if isinstance(uid, bool) or not isinstance(uid, int) or not 0 <= uid < 2**32 - 1:
        raise Refused("bad-params", f"uid {uid!r:.50} is no user number")
    if uid in (0, os.getuid()):
        raise Refused("refused", f"uid {uid} is the harness's own; only another user's files can be deleted")
    if isinstance(timeout_s, bool) or not isinstance(timeout_s, int | float) or not 0 < timeout_s <= 3600:
        raise Refused("bad-params", f"timeout_s {timeout_s!r:.50} must be from 0 to 3600 seconds")
    exclude = params.get("exclude")
    try:
        selection = Selection(
            include=_patterns(params.get("include", [])),
            exclude=[
                *(DEFAULT_EXCLUDE if exclude is None else _patterns(exclude)),
                *_patterns(params.get("extend_exclude", [])),
            ],
        )
    except ValueError as error:
        raise Refused("bad-params", str(error)) from error
    pid = getattr(machine.session, "leader_pid", None)
    left = delete_everything(uid, selection, timeout_s, session_pid=pid)
    return {"removed": left.removed, "left": left.report()}, b""


def _patterns(value: object) -> list[str]:
    if not isinstance(value, list) or len(value) > 1000 or not all(isinstance(item, str) for item in value):
        raise ValueError("include and exclude are lists of at most 1000 path patterns")
    return value


METHODS: dict[str, Handler] = {"delete_files": _delete_files}
