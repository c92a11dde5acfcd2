"""Two archives that the kernel unpacks one after the other: early boot, then the guest's code.

The first holds a static busybox, the few modules that lead to the root file system and ``init``; it changes with the
root file system. The second holds ``karotte_gym/guest`` and is written anew, in milliseconds, whenever that code
changes; ``init`` copies it to /usr/lib/karotte. Neither is compressed: unpacking under emulation costs more than
reading. The cpio format ("newc") is documented in the kernel's driver-api/early-userspace/buffer-format.
"""

from __future__ import annotations

import compileall
import hashlib
import py_compile
import stat
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from karotte_gym.errors import ImageError

__all__ = ["Member", "cpio", "early_boot", "guest_code", "guest_digest", "guest_members"]

GUEST = Path(__file__).resolve().parents[1] / "guest"
BOOT = GUEST / "boot"
GUEST_PATH = "/usr/lib/karotte"  # where `init` puts the second archive's /karotte


@dataclass(frozen=True, slots=True)
class Member:
    """One file, directory or device of an archive, root's."""

    path: str  # without a leading slash
    mode: int
    data: bytes = b""
    device: tuple[int, int] = (0, 0)


def cpio(members: Mapping[str, Member] | list[Member]) -> bytes:
    """An archive of these members, parents added, in a fixed order, without times: same content, same bytes."""
    given = {member.path: member for member in (members.values() if isinstance(members, Mapping) else members)}
    for path in list(given):
        for parent in list(Path(path).parents)[:-1]:
            given.setdefault(str(parent), Member(str(parent), stat.S_IFDIR | 0o755))
    out = bytearray()
    for number, path in enumerate(sorted(given), 1):
        out += _record(number, given[path])
    out += _record(0, Member("TRAILER!!!", 0))
    return bytes(out + bytes(-len(out) % 512))


def early_boot(busybox: bytes, modules: list[tuple[str, bytes]]) -> bytes:
    """The first archive; `modules` in the order of loading."""
    members = [
        Member("init", stat.S_IFREG | 0o755, (BOOT / "init").read_bytes()),
        Member("bin/busybox", stat.S_IFREG | 0o755, busybox),
        Member("dev/console", stat.S_IFCHR | 0o600, device=(5, 1)),
        Member("modules/order", stat.S_IFREG | 0o644, "".join(f"{name}\n" for name, _ in modules).encode()),
        *(Member(f"modules/{name}", stat.S_IFREG | 0o644, data) for name, data in modules),
    ]
    return cpio(members)


def guest_code() -> dict[str, bytes]:
    """The guest's sources by their path in the machine's /usr/lib/karotte, each read once."""
    files = {"start.py": (BOOT / "start.py").read_bytes()}
    for path in sorted(GUEST.rglob("*")):
        inside = path.relative_to(GUEST)
        if path.is_file() and inside.parts[0] != "boot" and "__pycache__" not in inside.parts and path.suffix != ".pyc":
            files[f"guest/{inside}"] = path.read_bytes()
    return files


def guest_digest(files: Mapping[str, bytes], python_tag: str) -> str:
    """Identifies the second archive."""
    running = hashlib.sha256(f"{python_tag} {_can_compile(python_tag)}".encode())
    for name in sorted(files):
        running.update(f"{name}\0{len(files[name])}\0".encode())
        running.update(files[name])
    return running.hexdigest()


def guest_members(files: Mapping[str, bytes], python_tag: str) -> list[Member]:
    """The second archive's members: root's alone, compiled ahead when the machine's Python speaks our bytecode."""
    members = [Member("karotte", stat.S_IFDIR | 0o700)]
    with tempfile.TemporaryDirectory(prefix="karotte-guest-") as name:
        tree = Path(name)
        for path, data in files.items():
            (tree / path).parent.mkdir(parents=True, exist_ok=True)
            (tree / path).write_bytes(data)
        if _can_compile(python_tag):
            _compile(tree)
        members += [
            Member(f"karotte/{path.relative_to(tree)}", stat.S_IFREG | 0o644, path.read_bytes()) for path in _walk(tree)
        ]
    return members


def _can_compile(python_tag: str) -> bool:
    return sys.implementation.cache_tag == python_tag


def _compile(tree: Path) -> None:
    """Bytecode that is trusted without looking at the source's time (the archive carries none)."""
    mode = py_compile.PycInvalidationMode.UNCHECKED_HASH
    if not compileall.compile_dir(tree, quiet=2, stripdir=str(tree), prependdir=GUEST_PATH, invalidation_mode=mode):
        for path in _walk(tree):
            if path.suffix == ".py":
                try:
                    compile(path.read_bytes(), path.name, "exec")
                except (SyntaxError, ValueError) as error:
                    raise ImageError(f"the guest's code does not compile: {path.relative_to(tree)}: {error}") from error
        raise ImageError("the guest's code could not be compiled ahead of time")


def _walk(tree: Path) -> Iterator[Path]:
    yield from sorted(path for path in tree.rglob("*") if path.is_file())


def _record(number: int, member: Member) -> bytes:
    name = member.path.encode() + b"\0"
    links = 2 if stat.S_ISDIR(member.mode) else 1
    fields = (number, member.mode, 0, 0, links, 0, len(member.data), 0, 0, *member.device, len(name), 0)
    head = b"070701" + b"".join(b"%08X" % field for field in fields) + name
    head += bytes(-len(head) % 4)
    return head + member.data + bytes(-len(member.data) % 4)
