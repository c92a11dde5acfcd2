"""What a build leaves that is no credential, yet tells every student the same secret or the builder's affairs."""

from __future__ import annotations

from collections.abc import Iterator

from .tree import Finding, Probe, Tree

__all__ = ["ROOT_PROBES"]

_MACHINE_IDS = ("/etc/machine-id", "/var/lib/dbus/machine-id", "/etc/hostid")
_SEEDS = ("/var/lib/systemd/random-seed", "/var/lib/urandom/random-seed", "/var/lib/misc/random-seed")
_BACKUPS = ("passwd-", "group-", "shadow-", "gshadow-", "subuid-", "subgid-", "passwd.bak", "shadow.bak")
_KERNEL = ("/boot", "/usr/lib/karotte-boot", "/lib/modules", "/usr/lib/modules", "/usr/lib/debug")
_HISTORY = (".git", ".hg", ".svn", ".bzr")
_MARKS = ("/.dockerenv", "/run/.containerenv", "/.buildah")


def machine_identity(tree: Tree) -> Iterator[Finding]:
    """An identity that all machines share can be linked across episodes, and programs derive keys from it."""
    for path in _MACHINE_IDS:
        content = (tree.read(path) or b"").strip()
        if content and content != b"uninitialized":
            yield Finding(f"{path} is baked in", f"rm {path} in the Containerfile")


def host_keys(tree: Tree) -> Iterator[Finding]:
    """Host keys that everybody has who has the image identify nobody."""
    for name in tree.names("/etc/ssh"):
        if name.startswith("ssh_host_"):
            yield Finding(f"/etc/ssh/{name} is baked in", "purge openssh-server in the Containerfile")


def random_seeds(tree: Tree) -> Iterator[Finding]:
    """A stored seed makes first random numbers the same in every machine."""
    for path in _SEEDS:
        if tree.read(path, 1):
            yield Finding(f"{path} is baked in", f"rm {path} in the Containerfile")


def build_logs(tree: Tree) -> Iterator[Finding]:
    """Logs of the build name its hosts, proxies and arguments."""
    for entry in tree.below("/var/log"):
        if entry.is_file and entry.size:
            yield Finding(f"{entry.path} is a log of the build", f"rm {entry.path} in the Containerfile")


def package_lists(tree: Tree) -> Iterator[Finding]:
    """Lists and archives of packages: large, and their names spell the mirror's address."""
    for entry in tree.below("/var/lib/apt/lists", "/var/cache/apt"):
        if entry.is_file and entry.size:
            fix = "apt-get clean and rm -rf /var/lib/apt/lists/* in the Containerfile"
            yield Finding(f"{entry.path} was left by the package manager", fix)


def account_backups(tree: Tree) -> Iterator[Finding]:
    """Old copies of the account files keep what was taken out of the new ones."""
    for name in tree.names("/etc"):
        if name in _BACKUPS:
            yield Finding(f"/etc/{name} is a backup of accounts", f"rm /etc/{name} in the Containerfile")


def kernel_files(tree: Tree) -> Iterator[Finding]:
    """The running kernel's image and symbols are the map for an exploit, and its modules could be loaded."""
    for entry in tree.below(*_KERNEL):
        if entry.is_file:
            fix = f"rm {entry.path} in the Containerfile: machines boot a kernel that lies outside the image"
            yield Finding(f"{entry.path} is part of a kernel", fix)


def source_histories(tree: Tree) -> Iterator[Finding]:
    """A repository keeps every version: the expected answer that was removed in the last commit too."""
    for entry in tree.entries():
        if entry.name in _HISTORY and entry.is_directory:
            yield Finding(f"{entry.path} is a repository's history", f"rm -r {entry.path} in the Containerfile")


def container_marks(tree: Tree) -> Iterator[Finding]:
    """Files of the container builder; some hold the builder's own settings."""
    for path in _MARKS:
        if tree.entry(path):
            yield Finding(f"{path} was left by the container builder", f"rm -r {path} in the Containerfile")


def names_of_other_hosts(tree: Tree) -> Iterator[Finding]:
    """A hosts file copied from the build names machines of the builder's network."""
    for line in tree.lines("/etc/hosts"):
        address = line.split()[0]
        if not address.startswith(("127.", "::1", "fe00::", "ff02::", "ff00::", "0.0.0.0")):
            yield Finding(f"/etc/hosts names another host: {line!r}", "leave only localhost in /etc/hosts")


ROOT_PROBES: tuple[Probe, ...] = (
    machine_identity, host_keys, random_seeds, build_logs, package_lists, account_backups, kernel_files,
    source_histories, container_marks, names_of_other_hosts,
)  # fmt: skip
