"""Where things are in a machine: the agent's directories, and what of the scratch disk is mounted where."""

from __future__ import annotations

from .calls import Machine

PRIVATE = "/run/karotte"  # 0700: nothing in it has a name in the student's view
SCRATCH = f"{PRIVATE}/scratch"  # the scratch disk, whole
DRIVE = f"{PRIVATE}/drive"  # the data drive, whole
VIEW_ROOT = f"{PRIVATE}/root"  # where a leader assembles the student's file system
NOTHING = f"{PRIVATE}/nothing"  # a file that nobody may open
EMPTY = f"{PRIVATE}/empty"  # a directory that nobody may enter
NO_DATA = f"{PRIVATE}/no-data"  # an empty directory that everybody may list
PIPES = f"{PRIVATE}/pipes"  # 0711: pipes between agent and shell; the student opens what it is told of, lists nothing
PIPES_SEEN = "/run/shell"  # the same as the student sees it

SERVICES = f"{PRIVATE}/services"  # a bounded file system for each service: its files, and what it writes

SCRATCH_DEVICE, DRIVE_DEVICE = "/dev/vdb", "/dev/vdc"
# Directory on the scratch disk and its place in the file system, root's and the student's alike.
ON_SCRATCH = (("workdir", "/workdir"), ("tmp", "/tmp"), ("var-tmp", "/var/tmp"))
SHARED = "/workdir/shared"

__all__ = [
    "DRIVE",
    "DRIVE_DEVICE",
    "EMPTY",
    "NOTHING",
    "NO_DATA",
    "ON_SCRATCH",
    "PIPES",
    "PIPES_SEEN",
    "PRIVATE",
    "SCRATCH",
    "SCRATCH_DEVICE",
    "SERVICES",
    "SHARED",
    "VIEW_ROOT",
    "student_binds",
]


def student_binds(machine: Machine) -> list[tuple[str, str, bool]]:
    """(source, target, read-only) of every directory that the student's view takes from elsewhere."""
    binds = [(f"{SCRATCH}/{name}", place, False) for name, place in ON_SCRATCH]
    return [*binds, (machine.state["shared"], SHARED, True), (PIPES, PIPES_SEEN, True)]
