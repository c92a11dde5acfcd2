"""Reads bash's own variables out of its memory: how the agent knows what a shell is doing without asking it.

Whatever a shell prints can be forged by what runs in it, and any command that asks it can be shadowed, trapped or
swallowed. Debian's bash exports its globals for loadable builtins, so their places are in ``.dynsym``; the agent is
root outside the student's reach and reads them through ``/proc/PID/mem``. A student that writes to its own shell's
memory can mislead the agent about its own command, which is worth as much as any other lie about it: nothing.
"""

from __future__ import annotations

import errno
import functools
import itertools
import os
import struct

__all__ = ["BASH", "BashMemory", "NotBash", "symbol_offsets"]

BASH = "/bin/bash"
VARIABLES = (
    "current_command_line_count",  # 0 between commands, else the number of lines read of the present one
    "default_buffered_input",  # descriptor of the script; bash moves it out of the way of redirections
    "echo_input_at_read",  # set -v
    "executing",  # a command read from the script runs
    "expand_aliases",  # shopt -s expand_aliases
    "extended_glob",  # shopt -s extglob
    "interactive",  # whether an interrupt ends the command (1) or the shell (0)
    "interrupt_state",  # above 0: interrupt what runs, at the next safe point
    "last_command_exit_value",  # $?
    "line_number",  # $LINENO
    "parse_and_execute_level",  # above 0 in eval, source and traps
    "read_but_dont_execute",  # set -n
    "restricted",  # set -r
)
_ELF_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
_SECTION = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_INT = struct.Struct("<i")
_SHT_DYNSYM = 11
_ET_DYN = 3
_MAX_SPAN_BYTES = 16384  # one read for all: a system call costs more than the pages between
_GONE = (errno.EBADF, errno.EIO, errno.ESRCH, errno.EACCES, errno.EPERM)


class NotBash(Exception):
    """The process is gone, or its memory is not that of the bash that it was (exec)."""


@functools.lru_cache(maxsize=4)
def symbol_offsets(path: str = BASH) -> tuple[dict[str, int], bool]:
    """Addresses of `VARIABLES` in the program `path`, and whether they are relative to where it is loaded."""
    with open(path, "rb") as file:
        image = file.read()
    header = _ELF_HEADER.unpack_from(image)
    if header[0][:6] != b"\x7fELF\x02\x01":
        raise RuntimeError(f"{path} is no 64-bit little-endian program; this shell can't be watched")
    sections = [_SECTION.unpack_from(image, header[6] + index * header[11]) for index in range(header[12])]
    dynsym = next(section for section in sections if section[1] == _SHT_DYNSYM)
    names_at = sections[dynsym[6]][4]
    wanted = {name.encode(): name for name in VARIABLES}
    found: dict[str, int] = {}
    for at in range(dynsym[4], dynsym[4] + dynsym[5], _SYMBOL.size):
        name_offset, _, _, _, value, _ = _SYMBOL.unpack_from(image, at)
        start = names_at + name_offset
        name = image[start : image.index(b"\0", start)]
        if name in wanted:
            found[wanted[name]] = value
    if missing := set(VARIABLES) - set(found):
        raise RuntimeError(f"{path} does not export {sorted(missing)}; this shell can't be watched")
    return found, header[1] == _ET_DYN


class BashMemory:
    """The globals of one running bash, and the system call it sleeps in. NotBash once it has ended or is another program.

    Looked at several times in each call, under emulation: descriptors stay open and formats are made once.
    """

    def __init__(self, pid: int, path: str = BASH):
        self.pid = pid
        offsets, relative = symbol_offsets(path)
        self._file = self._syscall = -1
        self._line = b""  # what `blocked_call` read last, and what it says
        self._call: tuple[int, int] | None = None
        try:
            base = _load_address(pid, path) if relative else 0
            self._file = os.open(f"/proc/{pid}/mem", os.O_RDWR | os.O_CLOEXEC)
            self._syscall = os.open(f"/proc/{pid}/syscall", os.O_RDONLY | os.O_CLOEXEC)
        except (FileNotFoundError, ProcessLookupError, PermissionError) as error:
            self.close()
            raise NotBash(f"process {pid} is no bash: {error}") from error
        self._at = {name: base + offset for name, offset in offsets.items()}
        self._spans = _spans(self._at)

    def read(self) -> dict[str, int]:
        """All variables."""
        values: dict[str, int] = {}
        try:
            for start, layout, names, data in self._spans:
                # A descriptor of the memory that was there before an exec reads nothing.
                if os.preadv(self._file, [data], start) != layout.size:
                    raise NotBash(f"process {self.pid} has another memory than before")
                values.update(zip(names, layout.unpack(data), strict=True))
        except OSError as error:
            raise self._not_bash(error) from error
        return values

    def set(self, name: str, value: int) -> None:
        """Change a variable of a shell that waits for its next command."""
        try:
            written = os.pwrite(self._file, _INT.pack(value), self._at[name])
        except OSError as error:
            raise self._not_bash(error) from error
        if written != _INT.size:
            raise NotBash(f"process {self.pid} has another memory than before")

    def blocked_call(self) -> tuple[int, int] | None:
        """Number and first argument of the system call that the process sleeps in; None while it runs or is gone."""
        try:
            line = os.pread(self._syscall, 256, 0)
        except OSError as error:
            if error.errno in _GONE:
                return None
            raise
        if line != self._line:  # a shell at its prompt always sleeps in the same place
            fields = line.split()
            asleep = len(fields) > 2 and int(fields[0]) >= 0
            self._line, self._call = line, (int(fields[0]), int(fields[1], 16)) if asleep else None
        return self._call

    def close(self) -> None:
        """Give the descriptors back; idempotent. Whoever still looks finds none, and not those of somebody else."""
        both = self._file, self._syscall
        self._file = self._syscall = -1
        for fd in both:
            if fd >= 0:
                os.close(fd)

    def _not_bash(self, error: OSError) -> Exception:
        return NotBash(f"process {self.pid} has no such memory: {error}") if error.errno in _GONE else error


def _spans(at: dict[str, int]) -> list[tuple[int, struct.Struct, tuple[str, ...], bytearray]]:
    """Neighbours that one read fetches: (start, layout, names, where to); memory made for each read costs its pages."""
    groups: list[list[tuple[int, str]]] = []
    for address, name in sorted((address, name) for name, address in at.items()):
        if groups and address - groups[-1][0][0] < _MAX_SPAN_BYTES:
            groups[-1].append((address, name))
        else:
            groups.append([(address, name)])
    layouts = [_layout([address for address, _ in group]) for group in groups]
    return [
        (group[0][0], layout, tuple(name for _, name in group), bytearray(layout.size))
        for group, layout in zip(groups, layouts, strict=True)
    ]


def _layout(addresses: list[int]) -> struct.Struct:
    gaps = (b - a - _INT.size for a, b in itertools.pairwise(addresses))
    return struct.Struct("<i" + "".join(f"{gap}xi" for gap in gaps))


def _load_address(pid: int, path: str) -> int:
    """Where the first segment of the program lies in the process."""
    inode = os.stat(path).st_ino
    with open(f"/proc/{pid}/maps", encoding="utf-8", errors="replace") as file:
        for line in file:
            span, _, offset, _, number, *_ = line.split(maxsplit=5)
            if int(number) == inode and int(offset, 16) == 0:
                return int(span.split("-")[0], 16)
    raise NotBash(f"process {pid} does not run {path}")
