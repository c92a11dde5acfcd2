"""Who may do what with the files of the image: programs that lend rights, places that others than root can change."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator

from .tree import Entry, Finding, Probe, Tree

__all__ = ["PROBES"]

_WHITEOUT = 0  # device 0:0 marks a removed file in an overlay; anybody may make one and it opens nothing


def setuid_programs(tree: Tree) -> Iterator[Finding]:
    """A program that runs as its owner: one flaw in it, or one option, and the student is that user."""
    for entry in tree.entries():
        if entry.is_file and entry.mode & stat.S_ISUID:
            yield Finding(f"{entry.path} is setuid of uid {entry.uid}", f"chmod u-s {entry.path} in the Containerfile")


def setgid_programs(tree: Tree) -> Iterator[Finding]:
    """A program that runs with its group: /etc/shadow and terminals have fallen to such ones."""
    for entry in tree.entries():
        if entry.is_file and entry.mode & stat.S_ISGID:
            yield Finding(f"{entry.path} is setgid of gid {entry.gid}", f"chmod g-s {entry.path} in the Containerfile")


def file_capabilities(tree: Tree) -> Iterator[Finding]:
    """Single powers of root that are stored with a file, without any setuid bit for a search to find."""
    for entry, names in tree.attributes():
        if "security.capability" in names:
            yield Finding(f"{entry.path} has file capabilities", f"setcap -r {entry.path} in the Containerfile")


def access_lists(tree: Tree) -> Iterator[Finding]:
    """An access list grants the student what owner and mode deny, and ``ls -l`` shows no more than a plus sign."""
    for entry, names in tree.attributes():
        if any(name.startswith("system.posix_acl_") for name in names):
            yield Finding(f"{entry.path} has an access list", f"setfacl -b {entry.path} in the Containerfile")


def unusual_attributes(tree: Tree) -> Iterator[Finding]:
    """Extended attributes travel with copies and show in no listing: build systems keep sources and tokens there."""
    for entry, names in tree.attributes():
        for name in names:
            if name.startswith("user."):
                yield Finding(f"{entry.path} has the attribute {name}", f"setfattr -x {name} {entry.path} in the Containerfile")


def writable_files(tree: Tree) -> Iterator[Finding]:
    """A file that the student can change and root reads: settings, programs, lists of accounts."""
    for entry in tree.outside():
        if entry.is_file and tree.may(entry, 2):
            yield Finding(f"{entry.path} is writable for the student ({_mode(entry)})", _take_away(entry))


def writable_directories(tree: Tree) -> Iterator[Finding]:
    """A place where the student can leave files, or replace root's, outside the workspace; sticky or not."""
    for entry in tree.outside():
        if entry.is_directory and tree.may(entry, 2):
            yield Finding(f"directory {entry.path} is writable for the student ({_mode(entry)})", _take_away(entry))


def files_of_the_student(tree: Tree) -> Iterator[Finding]:
    """Whoever owns a file can always make it writable again, whatever its mode says today."""
    for entry in tree.outside():
        if entry.uid == tree.uid:
            yield Finding(f"{entry.path} belongs to the student", f"chown root:root {entry.path} in the Containerfile")


def files_of_the_students_group(tree: Tree) -> Iterator[Finding]:
    """A file of the student's group opens with the next change of its mode, and nobody will look at the group."""
    for entry in tree.outside():
        if entry.gid == tree.gid and entry.uid != tree.uid:
            yield Finding(f"{entry.path} is of the student's group", f"chgrp root {entry.path} in the Containerfile")


def files_of_nobody(tree: Tree) -> Iterator[Finding]:
    """A file of a uid without account is inherited by whoever gets that uid next."""
    known = {int(fields[2]) for line in tree.lines("/etc/passwd") if (fields := line.split(":"))[2:3]}
    for entry in tree.outside():
        if known and entry.uid not in known:
            yield Finding(
                f"{entry.path} belongs to uid {entry.uid}, which is no account",
                f"chown root:root {entry.path} in the Containerfile",
            )


def device_nodes(tree: Tree) -> Iterator[Finding]:
    """A device outside /dev opens a disk or memory by another name, wherever a mount forgets ``nodev``."""
    for entry in tree.entries():
        is_device = stat.S_ISBLK(entry.mode) or (stat.S_ISCHR(entry.mode) and entry.device != _WHITEOUT)
        if is_device:
            number = f"{os.major(entry.device)}:{os.minor(entry.device)}"
            yield Finding(f"{entry.path} is a device ({number})", f"rm {entry.path} in the Containerfile")


def sockets_and_pipes(tree: Tree) -> Iterator[Finding]:
    """A socket or FIFO in the image is where some daemon of root's will listen, or already does."""
    for entry in tree.outside():
        if stat.S_ISSOCK(entry.mode) or stat.S_ISFIFO(entry.mode):
            kind = "socket" if stat.S_ISSOCK(entry.mode) else "FIFO"
            yield Finding(f"{entry.path} is a {kind}", f"rm {entry.path} in the Containerfile")


def temporary_directories(tree: Tree) -> Iterator[Finding]:
    """Without the sticky bit the student can replace what root left in a shared temporary directory."""
    for path in ("/tmp", "/var/tmp", "/dev/shm", "/run/lock"):
        entry = tree.entry(path)
        if entry and entry.mode & 0o002 and not entry.mode & stat.S_ISVTX:
            yield Finding(f"{path} is writable for all and not sticky ({_mode(entry)})", f"chmod 1777 {path}")


def home_of_root(tree: Tree) -> Iterator[Finding]:
    """What root keeps at home is nobody's business; one careless file in it would be readable."""
    entry = tree.entry("/root")
    if entry and (tree.may(entry, 4) or tree.may(entry, 1)):
        yield Finding(f"/root is open to the student ({_mode(entry)})", "chmod 0700 /root in the Containerfile")


def whole_tree_was_seen(tree: Tree) -> Iterator[Finding]:
    """An image of more files than are walked would hide its defects behind the end of the walk."""
    entries = tree.entries()
    if not tree.whole:
        yield Finding(f"only the first {len(entries)} files were looked at", "make the image smaller")


PROBES: tuple[Probe, ...] = (
    setuid_programs, setgid_programs, file_capabilities, access_lists, unusual_attributes, writable_files,
    writable_directories, files_of_the_student, files_of_the_students_group, files_of_nobody, device_nodes,
    sockets_and_pipes, temporary_directories, home_of_root, whole_tree_was_seen,
)  # fmt: skip


def _mode(entry: Entry) -> str:
    return f"{stat.filemode(entry.mode)}, uid {entry.uid}, gid {entry.gid}"


def _take_away(entry: Entry) -> str:
    return f"chown root:root {entry.path} && chmod go-w {entry.path} in the Containerfile"
