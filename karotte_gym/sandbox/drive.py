"""Data drives: a task's directories as one read-only squashfs, built once per content.

The key is a hash over names, kinds, permissions (executable or not) and bytes, so a drive is the same wherever and by
whom the task was checked out: owner, umask, times and compiled Python files play no part.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path

from karotte_gym.errors import ConfigError, MachineError
from karotte_gym.sandbox import cache, manifest, ram
from karotte_gym.sandbox.progress import Progress, silent

__all__ = ["FILE", "Drive", "build", "digest", "digest_tree", "signature"]

FILE = "drive.squashfs"
FORMAT = "2"
MKSQUASHFS_MEMORY = "256M"  # it would take a quarter of the host's; enough for its caches at any size of drive
MKSQUASHFS_TIMEOUT_S = 3600.0  # ten gibibytes that hold something, on a busy host
Drive = tuple[tuple[str, str], ...]  # (name on the drive, host directory)
NAMES = {"student": ("student_data", "shared_data"), "grader": ("root_data", "grade")}


def digest(role: str, drive: Drive) -> str:
    """What a drive's content is, as a hash. ConfigError for a directory that is absent or holds special files."""
    running = hashlib.sha256(f"{FORMAT} {role}".encode())
    for name, source in sorted(drive):
        _check_name(role, name)
        running.update(digest_tree(name, source).encode())
    return running.hexdigest()


def digest_tree(name: str, source: str) -> str:
    """A hash of names, kinds, permissions and bytes below `source`. Holes cost nothing, however large."""
    running = hashlib.sha256()
    for relative, path, facts in _walk(name, source):
        running.update(b"\0".join([os.fsencode(relative), _kind(facts), _content_digest(path, facts)]) + b"\n")
    return running.hexdigest()


def signature(drive: Drive) -> tuple[object, ...]:
    """What tells cheaply (no byte is read) whether a drive's sources may have changed since they were hashed."""
    return tuple(
        (relative, facts.st_mode, facts.st_size, facts.st_mtime_ns, facts.st_ctime_ns, facts.st_ino)
        for name, source in sorted(drive)
        for relative, _, facts in _walk(name, source)
    )


def build(role: str, drive: Drive, key: str, progress: Progress = silent) -> cache.Lease:
    """The cache entry that holds `FILE`; `key` is ``digest(role, drive)``."""
    return cache.obtain("drive", key, lambda directory: _pack(role, drive, directory), progress)


def _check_name(role: str, name: str) -> None:
    """The grader's data must not even be named in the student's machine."""
    if name not in NAMES[role]:
        raise ConfigError(f"the drive of a {role}'s machine can't hold {name!r}, only {' and '.join(NAMES[role])}")


def _walk(name: str, source: str) -> Iterator[tuple[str, Path, os.stat_result]]:
    top = Path(source)
    if not top.is_dir():
        raise ConfigError(f"{top}, meant as {name}, is no directory")
    yield name, top, top.stat()
    for directory, names, files in os.walk(top):
        names[:] = sorted(each for each in names if each != "__pycache__")
        for each in sorted([*names, *files]):
            path = Path(directory, each)
            facts = path.lstat()
            if not (stat.S_ISREG(facts.st_mode) or stat.S_ISDIR(facts.st_mode) or stat.S_ISLNK(facts.st_mode)):
                raise ConfigError(f"{path} is no regular file, directory or link; a data drive can't hold it")
            yield f"{name}/{path.relative_to(top)}", path, facts


def _kind(facts: os.stat_result) -> bytes:
    return f"{stat.S_IFMT(facts.st_mode)} {_mode(facts):o}".encode()


def _mode(facts: os.stat_result) -> int:
    return 0o755 if stat.S_ISDIR(facts.st_mode) or facts.st_mode & 0o100 else 0o644


def _content_digest(path: Path, facts: os.stat_result) -> bytes:
    if stat.S_ISLNK(facts.st_mode):
        return os.fsencode(os.readlink(path))
    if stat.S_ISDIR(facts.st_mode):
        return b""
    with open(path, "rb") as file:
        return bytes.fromhex(manifest.digest(file.fileno()))


def _pack(role: str, drive: Drive, directory: Path) -> None:
    staged = directory / "staged"
    staged.mkdir()
    for name, source in drive:
        for relative, path, facts in _walk(name, source):
            _stage(path, staged / relative, facts)
    for name in set(NAMES[role]) - {name for name, _ in drive}:
        (staged / name).mkdir()  # the guest finds each of them
    _make_squashfs(staged, directory / FILE)
    shutil.rmtree(staged)
    (directory / FILE).chmod(0o644)


def _stage(path: Path, target: Path, facts: os.stat_result) -> None:
    if stat.S_ISLNK(facts.st_mode):
        target.symlink_to(os.readlink(path))
        return
    if stat.S_ISDIR(facts.st_mode):
        target.mkdir()
    else:
        with open(path, "rb") as read, open(target, "xb") as write:
            ram.copy_sparsely(read.fileno(), write.fileno())  # a file of ten gibibytes may hold a few
    target.chmod(_mode(facts))


def _make_squashfs(source: Path, target: Path) -> None:
    program = shutil.which("mksquashfs", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")
    if program is None:
        raise MachineError("mksquashfs is not installed; install the package squashfs-tools")
    options = ["-all-root", "-no-xattrs", "-all-time", "0", "-mkfs-time", "0", "-comp", "zstd", "-noappend", "-quiet"]
    options += ["-mem", MKSQUASHFS_MEMORY]
    done = subprocess.run(
        [program, str(source), str(target), *options, "-no-progress"],
        capture_output=True,
        timeout=MKSQUASHFS_TIMEOUT_S,
        check=False,
        env={"PATH": "/usr/bin:/bin", "LC_ALL": "C"},
    )
    if done.returncode != 0:
        said = done.stderr.decode(errors="replace").strip()[-500:]
        raise MachineError(f"mksquashfs failed with exit code {done.returncode}: {said}")
