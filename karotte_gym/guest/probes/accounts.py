"""Who can become whom: accounts, passwords, groups, further uids and rules that delegate root's rights."""

from __future__ import annotations

from collections.abc import Iterator

from .tree import Finding, Probe, Tree

__all__ = ["PROBES", "ROOT_PROBES"]

_LOCKED = ("!", "*", "x")
_RULES = (
    "/etc/sudoers", "/etc/sudoers.d", "/etc/doas.conf", "/etc/doas.d", "/etc/polkit-1/rules.d",
    "/usr/share/polkit-1/rules.d", "/etc/polkit-1/localauthority", "/etc/security/capability.conf",
)  # fmt: skip
_LOGINS = ("authorized_keys", "authorized_keys2", ".rhosts", ".shosts", "hosts.equiv", "shosts.equiv")


def passwordless_accounts(tree: Tree) -> Iterator[Finding]:
    """An account without a password is open to ``su``, and so is everything that it may do."""
    for path in ("/etc/passwd", "/etc/shadow"):
        for fields in _records(tree, path):
            if fields[1] == "":
                fix = f"usermod --lock {fields[0]} in the Containerfile"
                yield Finding(f"account {fields[0]} has no password in {path}", fix)


def passwords(tree: Tree) -> Iterator[Finding]:
    """A password hash in the image can be guessed at leisure, by everybody who has the image."""
    for path in ("/etc/passwd", "/etc/shadow", "/etc/gshadow"):
        for fields in _records(tree, path):
            if fields[1] and not fields[1].startswith(_LOCKED):
                yield Finding(f"{fields[0]} has a password in {path}", f"usermod --lock {fields[0]} in the Containerfile")


def further_roots(tree: Tree) -> Iterator[Finding]:
    """A second account of uid 0 is root under a name that nobody looks for."""
    for fields in _records(tree, "/etc/passwd"):
        if fields[2:3] and fields[2].isdigit() and int(fields[2]) == 0 and fields[0] != "root":
            yield Finding(f"account {fields[0]} in /etc/passwd has uid 0", f"userdel {fields[0]} in the Containerfile")


def twins_of_the_student(tree: Tree) -> Iterator[Finding]:
    """Another account of the student's uid owns what the student owns and may have other groups."""
    for fields in _records(tree, "/etc/passwd"):
        if fields[2:3] == [str(tree.uid)] and fields[0] != "student":
            fix = "leave uid 1000 to the account `student`"
            yield Finding(f"account {fields[0]} in /etc/passwd has the student's uid {tree.uid}", fix)


def groups_of_the_student(tree: Tree) -> Iterator[Finding]:
    """Membership of disk, shadow, docker or adm is root by a detour."""
    for fields in _records(tree, "/etc/group"):
        if len(fields) > 3 and "student" in fields[3].split(",") and fields[2] != str(tree.gid):
            yield Finding(
                f"the student is in group {fields[0]} in /etc/group",
                f"gpasswd -d student {fields[0]} in the Containerfile",
            )


def primary_group_of_the_student(tree: Tree) -> Iterator[Finding]:
    """A primary group that is shared with others makes their files the student's; group 0 makes root's so."""
    for fields in _records(tree, "/etc/passwd"):
        if fields[0] == "student" and len(fields) > 3 and fields[2:4] != [str(tree.uid), str(tree.gid)]:
            fix = f"create it with --uid {tree.uid} --gid {tree.gid}"
            yield Finding(f"account student in /etc/passwd has uid and gid {fields[2]}:{fields[3]}", fix)


def subordinate_ids(tree: Tree) -> Iterator[Finding]:
    """A range of further uids lets the student own files and processes that no kill of uid 1000 reaches."""
    for path in ("/etc/subuid", "/etc/subgid"):
        for line in tree.lines(path):
            yield Finding(f"{path} grants {line!r}", f"empty {path} in the Containerfile")


def readable_shadow(tree: Tree) -> Iterator[Finding]:
    """Password hashes that the student can read; attempted, since a group or an access list may open them."""
    for path in ("/etc/shadow", "/etc/gshadow", "/etc/shadow-", "/etc/gshadow-", "/etc/security/opasswd"):
        entry = tree.entry(path)
        if entry and tree.may(entry, 4):
            yield Finding(f"{path} is readable for the student", f"chmod 0600 {path} in the Containerfile")


def delegation_rules(tree: Tree) -> Iterator[Finding]:
    """A rule of sudo, doas or polkit waits for its program: the next package that brings it opens the door."""
    for path in _RULES:
        for found in [path] if tree.read(path) else [f"{path}/{name}" for name in tree.names(path) if name != "README"]:
            yield Finding(f"{found} delegates root's rights", f"rm {found} in the Containerfile")


def remote_logins(tree: Tree) -> Iterator[Finding]:
    """A key or host that may log in without password; whoever built the image would own every machine."""
    for entry in tree.entries():
        if entry.name in _LOGINS and entry.is_file:
            yield Finding(f"{entry.path} lets somebody log in", f"rm {entry.path} in the Containerfile")


PROBES: tuple[Probe, ...] = (
    further_roots, twins_of_the_student, groups_of_the_student, primary_group_of_the_student, subordinate_ids,
    readable_shadow,
)  # fmt: skip
ROOT_PROBES: tuple[Probe, ...] = (passwordless_accounts, passwords, delegation_rules, remote_logins)


def _records(tree: Tree, path: str) -> Iterator[list[str]]:
    for line in tree.lines(path):
        fields = line.split(":")
        if len(fields) > 1:
            yield fields
