"""What root will run or load: programs, libraries, Python modules and start-up files must be root's alone to change."""

from __future__ import annotations

import os
from collections.abc import Iterator

from .tree import Entry, Finding, Probe, Tree

__all__ = ["PROBES", "ROOT_PATH"]

ROOT_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_LENDERS = frozenset((
    "sudo", "sudoedit", "doas", "pkexec", "newuidmap", "newgidmap", "fusermount", "fusermount3", "ssh-keysign",
    "dbus-daemon-launch-helper", "polkit-agent-helper-1", "snap-confine", "bwrap", "staprun", "userhelper",
    "ksu", "super", "sus", "pmount",
))  # fmt: skip
_SCHEDULERS = frozenset((
    "at", "atd", "atq", "atrm", "batch", "cron", "crond", "crontab", "anacron", "fcron", "fcrontab", "incrond",
))  # fmt: skip
_PROGRAM_PLACES = ("/bin", "/sbin", "/usr", "/opt", "/lib", "/lib64")
_JOBS = (
    "/etc/crontab", "/etc/anacrontab", "/etc/cron.d", "/etc/cron.hourly", "/etc/cron.daily", "/etc/cron.weekly",
    "/etc/cron.monthly", "/etc/incron.d", "/var/spool/cron", "/var/spool/anacron", "/var/spool/at",
)  # fmt: skip
_LIBRARIES = ("/lib", "/lib64", "/usr/lib", "/usr/lib64", "/usr/local/lib", "/usr/local/lib64")
_START_UP = (
    "/etc/profile", "/etc/profile.d", "/etc/bash.bashrc", "/etc/bashrc", "/etc/environment", "/etc/login.defs",
    "/etc/inputrc", "/etc/skel", "/etc/pam.d", "/etc/security", "/etc/nsswitch.conf", "/etc/gai.conf", "/etc/hosts",
)  # fmt: skip
_INIT = (
    "/etc/init.d", "/etc/rc.local", "/etc/inittab", "/etc/systemd", "/lib/systemd", "/usr/lib/systemd", "/etc/udev",
    "/usr/lib/udev", "/etc/modprobe.d", "/etc/sysctl.d", "/etc/sysctl.conf", "/etc/tmpfiles.d", "/usr/lib/tmpfiles.d",
    "/etc/binfmt.d", "/etc/dbus-1", "/etc/NetworkManager", "/etc/network", "/etc/apt", "/etc/dpkg",
)  # fmt: skip


def privilege_programs(tree: Tree) -> Iterator[Finding]:
    """Programs made to lend another user's rights. Without their bits they fail today; a package update sets them."""
    for entry in _programs_named(tree, _LENDERS):
        yield Finding(f"{entry.path} lends other users' rights", "purge its package in the Containerfile")


def scheduling_programs(tree: Tree) -> Iterator[Finding]:
    """What runs later runs after custody, outside the session, with the rights of a daemon of root's."""
    for entry in _programs_named(tree, _SCHEDULERS):
        yield Finding(f"{entry.path} runs programs later", "purge its package in the Containerfile")


def scheduled_jobs(tree: Tree) -> Iterator[Finding]:
    """A table of jobs is a list of what root will run unasked."""
    for entry in tree.below(*_JOBS):
        if entry.is_file and entry.name != ".placeholder":
            yield Finding(f"{entry.path} is a scheduled job", f"rm {entry.path} in the Containerfile")


def program_directories(tree: Tree) -> Iterator[Finding]:
    """A directory of PATH that is not root's alone: the student's ``ps`` would be root's ``ps``."""
    for path in dict.fromkeys(f"{ROOT_PATH}:{os.environ.get('PATH', '')}".split(":")):
        if not path.startswith("/"):
            if path or os.environ.get("PATH"):
                yield Finding(f"PATH has the relative entry {path!r}", "name absolute directories only in PATH")
        elif why := tree.unsafe_path(path):
            yield Finding(f"{path} is in PATH and {why}", f"chown root:root {path} && chmod go-w {path}")


def library_directories(tree: Tree) -> Iterator[Finding]:
    """A directory that the dynamic loader searches: a library put there runs in every program of root's."""
    names = [f"/etc/ld.so.conf.d/{name}" for name in tree.names("/etc/ld.so.conf.d")]
    listed = [line for name in ["/etc/ld.so.conf", *names] for line in tree.lines(name) if line.startswith("/")]
    for path in dict.fromkeys([*_LIBRARIES, *listed]):
        if why := tree.unsafe_path(path):
            yield Finding(f"libraries are loaded from {path}, and {why}", f"chown root:root {path} && chmod go-w {path}")


def loader_preload(tree: Tree) -> Iterator[Finding]:
    """/etc/ld.so.preload is loaded into every program there is, root's included."""
    for line in tree.lines("/etc/ld.so.preload"):
        yield Finding(f"/etc/ld.so.preload loads {line}", "rm /etc/ld.so.preload in the Containerfile")


def python_directories(tree: Tree) -> Iterator[Finding]:
    """A directory that Python imports from: a module put there runs in the harness's programs."""
    for entry in _python_places(tree):
        if entry.is_directory and (why := tree.unsafe_path(entry.path)):
            fix = f"chown root:root {entry.path} && chmod go-w {entry.path} in the Containerfile"
            yield Finding(f"Python imports from {entry.path}, and {why}", fix)


def python_startup_files(tree: Tree) -> Iterator[Finding]:
    """sitecustomize and .pth files run before a program's first line, or add directories that may be the student's."""
    for entry in _python_places(tree):
        if entry.name in ("sitecustomize.py", "usercustomize.py") and (why := tree.unsafe_path(entry.path)):
            yield Finding(f"Python starts with {entry.path}, and {why}", f"rm {entry.path} in the Containerfile")
        if entry.name.endswith(".pth"):
            for line in tree.lines(entry.path):
                if line.startswith("/") and (why := tree.unsafe_path(line)):
                    yield Finding(f"{entry.path} adds {line}, and {why}", f"rm {entry.path} in the Containerfile")


def shell_startup_files(tree: Tree) -> Iterator[Finding]:
    """Files that every login, shell or name look-up reads, root's too."""
    yield from _all_safe(tree, _START_UP, "is read by programs of root's")


def init_files(tree: Tree) -> Iterator[Finding]:
    """Units, rules and settings by which the system starts itself."""
    yield from _all_safe(tree, _INIT, "tells the system what to run as root")


def programs_and_libraries(tree: Tree) -> Iterator[Finding]:
    """Each single program and library below the system's directories must be root's."""
    for entry in tree.below("/usr", "/bin", "/sbin", "/lib", "/lib64"):
        if entry.is_file and entry.uid not in (0, tree.uid):
            fix = f"chown root:root {entry.path} in the Containerfile"
            yield Finding(f"{entry.path} belongs to uid {entry.uid}", fix)


PROBES: tuple[Probe, ...] = (
    privilege_programs, scheduling_programs, scheduled_jobs, program_directories, library_directories, loader_preload,
    python_directories, python_startup_files, shell_startup_files, init_files, programs_and_libraries,
)  # fmt: skip


def _programs_named(tree: Tree, names: frozenset[str]) -> Iterator[Entry]:
    return (e for e in tree.below(*_PROGRAM_PLACES) if e.name in names and e.is_program)


def _python_places(tree: Tree) -> Iterator[Entry]:
    """Directories that a Python of the system imports from, and what lies directly in them."""
    for entry in tree.below("/usr/lib", "/usr/local/lib", "/opt"):
        parent = entry.path.rpartition("/")[0].rpartition("/")[2]
        if (entry.is_directory and _is_python_place(entry.name)) or _is_python_place(parent):
            yield entry


def _is_python_place(name: str) -> bool:
    return name.startswith("python3") or name in ("dist-packages", "site-packages")


def _all_safe(tree: Tree, tops: tuple[str, ...], role: str) -> Iterator[Finding]:
    for entry in tree.below(*tops):
        if (entry.is_file or entry.is_directory) and (why := tree.unsafe(entry)):
            fix = f"chown root:root {entry.path} && chmod go-w {entry.path} in the Containerfile"
            yield Finding(f"{entry.path} {role} and {why}", fix)
