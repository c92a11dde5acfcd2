"""Puts files into the machine and reads files from it as root: the `put_file` and `get_file` calls.

Used by hooks and by grading, possibly while the student is at work, so both go by `nofollow` and never wait. A file is
written beside its target under a name nobody can guess and renamed when it is complete.
"""

from __future__ import annotations

import os
import re
import stat
import threading
from dataclasses import dataclass
from typing import Any

from .calls import Call, Handler, Machine, Refused
from .custody import STUDENT_UID
from .nofollow import Problem, kind_of, open_inode, open_parent, read_inode, split
from .tree_walk import identity
from .wire import MAX_BODY_BYTES

__all__ = ["METHODS"]

MAX_OPEN = 16  # unfinished files at a time; the oldest is given up for a new one
_OWNERS = {"root": (0, 0), "student": (STUDENT_UID, STUDENT_UID)}


@dataclass(frozen=True, slots=True)
class _Unfinished:
    directory: int
    descriptor: int
    temporary: str
    name: str
    path: str

    def close(self) -> None:
        os.close(self.descriptor)
        os.close(self.directory)

    def give_up(self) -> None:
        try:
            os.unlink(self.temporary, dir_fd=self.directory)
        except FileNotFoundError:  # whoever owns the directory may have removed it
            pass
        finally:
            self.close()


class _Transfers:
    """Unfinished files by the host's token."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.open: dict[str, _Unfinished] = {}


def _put_file(machine: Machine, call: Call) -> tuple[dict[str, Any], bytes]:
    path, token, owner, mode = _put_parameters(call.params)
    transfers: _Transfers = machine.state.setdefault("transfer", _Transfers())
    with transfers.lock:
        try:
            _put_chunk(transfers, path, token, owner, mode, call)
        except Problem as problem:
            raise Refused("refused", str(problem)) from problem
    return {}, b""


def _put_chunk(transfers: _Transfers, path: str, token: str, owner: tuple[int, int], mode: int, call: Call) -> None:
    if call.params.get("append", False):
        if token not in transfers.open or transfers.open[token].path != path:
            raise Refused("refused", f"no unfinished file {path} under that token")
    else:
        if token in transfers.open:
            transfers.open.pop(token).give_up()
        while len(transfers.open) >= MAX_OPEN:
            transfers.open.pop(next(iter(transfers.open))).give_up()
        transfers.open[token] = _begin(path, owner)
    unfinished = transfers.open[token]
    try:
        _write(unfinished.descriptor, call.body)
        if call.params.get("last", True):
            _finish(unfinished, owner, mode)
            del transfers.open[token]
            unfinished.close()
    except BaseException:
        del transfers.open[token]
        unfinished.give_up()
        raise


def _begin(path: str, owner: tuple[int, int]) -> _Unfinished:
    directory, name = open_parent(path, make=owner)
    temporary = f".{os.urandom(12).hex()}.part"
    try:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        return _Unfinished(directory, os.open(temporary, flags, 0o600, dir_fd=directory), temporary, name, path)
    except BaseException:
        os.close(directory)
        raise


def _write(descriptor: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(descriptor, rest) :]


def _finish(unfinished: _Unfinished, owner: tuple[int, int], mode: int) -> None:
    """Owner and mode, then the name. What is there afterwards must be the file that was written."""
    _refuse_to_replace(unfinished)
    os.fchown(unfinished.descriptor, *owner)
    os.fchmod(unfinished.descriptor, mode)
    wanted = identity(os.fstat(unfinished.descriptor))
    try:
        os.rename(unfinished.temporary, unfinished.name, src_dir_fd=unfinished.directory, dst_dir_fd=unfinished.directory)
        found = identity(os.lstat(unfinished.name, dir_fd=unfinished.directory))
    except FileNotFoundError:
        raise Problem("busy", f"{unfinished.path} was interfered with while it was written") from None
    if found != wanted:
        raise Problem("busy", f"{unfinished.path} was exchanged while it was written")


def _refuse_to_replace(unfinished: _Unfinished) -> None:
    try:
        mode = os.lstat(unfinished.name, dir_fd=unfinished.directory).st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISREG(mode):
        raise Problem("link" if stat.S_ISLNK(mode) else "kind", f"{unfinished.path} is a {kind_of(mode)}")


def _put_parameters(params: dict[str, Any]) -> tuple[str, str, tuple[int, int], int]:
    path, token, owner, mode = (params.get(name) for name in ("path", "token", "owner", "mode"))
    try:
        split(path)
    except ValueError as error:
        raise Refused("bad-params", str(error)) from error
    if not isinstance(token, str) or not re.fullmatch(r"[A-Za-z0-9_-]{1,64}", token):
        raise Refused("bad-params", "token must be 1 to 64 letters and digits")
    if not isinstance(owner, str) or owner not in _OWNERS:
        raise Refused("bad-params", "owner must be root or student")
    if isinstance(mode, bool) or not isinstance(mode, int) or not 0 <= mode <= 0o777:
        raise Refused("bad-params", "mode must be from 0 to 0o777")
    return str(path), token, _OWNERS[owner], mode


def _get_file(_machine: Machine, call: Call) -> tuple[dict[str, Any], bytes]:
    path, max_bytes = call.params.get("path"), call.params.get("max_bytes")
    if isinstance(max_bytes, bool) or not isinstance(max_bytes, int) or max_bytes < 0:
        raise Refused("bad-params", "max_bytes must be a number of at least 0")
    try:
        split(path)
        descriptor = _open_to_read(str(path))
    except ValueError as error:
        raise Refused("bad-params", str(error)) from error
    except Problem as problem:
        kind = {"missing": "no-file", "parent": "no-file", "kind": "not-regular"}.get(problem.reason, "refused")
        raise Refused(kind, str(problem)) from problem
    try:
        return {"size": _send(descriptor, str(path), max_bytes, call)}, b""
    finally:
        os.close(descriptor)


def _open_to_read(path: str) -> int:
    parent, name = open_parent(path)
    try:
        inode, status = open_inode(name, parent, path)
        try:
            if stat.S_ISLNK(status.st_mode):
                raise Problem("link", f"{path} is a symbolic link")
            return read_inode(inode, path)
        finally:
            os.close(inode)
    finally:
        os.close(parent)


def _send(descriptor: int, path: str, max_bytes: int, call: Call) -> int:
    """Send to the end of the file, which may grow meanwhile: one byte over the bound and it is refused."""
    if os.fstat(descriptor).st_size > max_bytes:
        raise Refused("too-large", f"{path} has more than {max_bytes} bytes")
    offset = 0
    while chunk := os.pread(descriptor, MAX_BODY_BYTES, offset):
        if offset + len(chunk) > max_bytes:
            raise Refused("too-large", f"{path} has more than {max_bytes} bytes")
        call.part({"data": {"offset": offset}}, chunk)
        offset += len(chunk)
    return offset


METHODS: dict[str, Handler] = {"get_file": _get_file, "put_file": _put_file}
