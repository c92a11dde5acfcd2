"""Grading in the student's own machine: `live_machine` hands the grading data over once nobody is left to read it.

The order is the protection. Custody has ended the student's processes and proved it; the guest proves it again and
refuses otherwise; services start, as users that see none of the places to come; then the data arrives. At the end the
places are unmounted, and only then may a student's session start again.

The machine was the student's, so what it does to a grader is the student's doing: its death, and an agent that can't do
what it is asked, come out as `MachineDied` and `CallRefused`, which the environment turns into misbehaviour. A judge
that words them as its own failure is not believed here.
"""

from __future__ import annotations

import io
import tarfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from karotte_gym.errors import CallRefused, ConfigError, GradingError, MachineDied, MachineError
from karotte_gym.sandbox.contract import MachineSpec, Sandbox, ServiceStatus, Submission
from karotte_gym.sandbox.unpack_archive import unpack_archive
from karotte_gym.service import Service

__all__ = ["live_machine"]

MIB = 1024 * 1024
MAX_ARCHIVE_BYTES = 32 * MIB  # of file data, held here and once more in the machine
SHARE_OF_MEMORY = 4  # each place may take a quarter of the machine's memory: two are ever large


@contextmanager
def live_machine(
    sandbox: Sandbox, spec: MachineSpec | None, memory_mib: int, services: Sequence[Service], submission: Submission
) -> Iterator[tuple[Sandbox, dict[str, ServiceStatus]]]:
    """The machine with services running and the data of `spec` (a judge's grader machine) in place."""
    drive = () if spec is None else spec.drive
    place_bytes = memory_mib * MIB // SHARE_OF_MEMORY
    _check_sizes(drive, place_bytes)
    try:
        sandbox.begin_live_grading(place_bytes)
        started = {one.name: sandbox.start_service(one, submission) for one in services if not one.keep}
        for name, source in drive:
            _put_tree(sandbox, Path(source), f"/{name}")
        yield sandbox, started
        sandbox.end_live_grading()
    except GradingError as error:
        if isinstance(error.__cause__, MachineDied | CallRefused):
            raise error.__cause__ from None
        raise


def _check_sizes(drive: tuple[tuple[str, str], ...], place_bytes: int) -> None:
    """The author's mistake must not come out as the student's."""
    for name, source in drive:
        size = sum(path.stat().st_size for path in Path(source).rglob("*") if path.is_file())
        if size > place_bytes:
            raise ConfigError(
                f"{name} has {size} bytes, and {place_bytes} fit into the live machine: "
                "make it smaller, or give the task's hardware more memory_mib"
            )


def _put_tree(sandbox: Sandbox, source: Path, target: str) -> None:
    """A directory of the task's as root's, whatever owns it here; in a few archives."""
    batch: list[Path] = []
    size = 0
    for path in sorted(source.rglob("*")):
        if "__pycache__" in path.parts:
            continue
        taken = path.lstat().st_size if path.is_file() and not path.is_symlink() else 0
        if batch and size + taken > MAX_ARCHIVE_BYTES:
            _unpack(sandbox, _archive(source, batch), target)
            batch, size = [], 0
        batch.append(path)
        size += taken
    if batch:
        _unpack(sandbox, _archive(source, batch), target)


def _archive(source: Path, paths: list[Path]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for path in paths:
            archive.add(path, str(path.relative_to(source)), recursive=False, filter=_as_root)
    return buffer.getvalue()


def _as_root(member: tarfile.TarInfo) -> tarfile.TarInfo:
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    member.mode = 0o755 if member.isdir() or member.mode & 0o100 else 0o644
    return member


def _unpack(sandbox: Sandbox, archive: bytes, target: str) -> None:
    what = "grading data could not be unpacked in the live machine"
    unpack_archive(sandbox, archive, target, beside="/grading_data/", failure=MachineError, what=what)
