"""What a process of the student's is: its rights, what it inherits, and what it can do to the processes of others."""

from __future__ import annotations

import ctypes
import errno
import mmap
import os
import re
import resource
import signal
from collections.abc import Iterator

from .attempt import call, closed, function
from .tree import Finding, Probe, Tree

__all__ = ["LIVE_PROBES"]

_SETS = ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")
MIB = 1024 * 1024
_LEADER = "the leader and the agent must be root and not dumpable"
_CONFINE = "drop it in guest/confine.py"
_SECRET_NAMES = re.compile(r"(?i)key|token|secret|passw|credential|auth|cookie")
_LOADER_NAMES = re.compile(r"^(LD_|PYTHON|BASH_ENV|BASH_FUNC|ENV$|IFS$|PERL5|RUBY|NODE_|JAVA_TOOL|GCONV_PATH|LOCPATH)")
_LAST_STANDARD = 2
_MAX_PID = 5000
_PTRACE_SEIZE = 0x4206
_LIMITS = {
    "RLIMIT_NOFILE": (resource.RLIMIT_NOFILE, 65536),
    "RLIMIT_MEMLOCK": (resource.RLIMIT_MEMLOCK, MIB),
    "RLIMIT_MSGQUEUE": (resource.RLIMIT_MSGQUEUE, 16 * MIB),
    "RLIMIT_SIGPENDING": (resource.RLIMIT_SIGPENDING, 65536),
    "RLIMIT_NICE": (resource.RLIMIT_NICE, 20),
    "RLIMIT_RTPRIO": (resource.RLIMIT_RTPRIO, 0),
}


def capabilities(_tree: Tree) -> Iterator[Finding]:
    """Any capability in any of the five sets is a part of root, or the right to get it back by an exec."""
    status = _status()
    for name in _SETS:
        if int(status[name], 16):
            yield Finding(f"{name} of the student is {status[name]}", _CONFINE)


def no_new_privileges(_tree: Tree) -> Iterator[Finding]:
    """The promise that no exec ever gives rights: it disarms the set-uid program that somebody will forget."""
    if _status()["NoNewPrivs"] != "1":
        yield Finding("no_new_privs is not set for the student", _CONFINE)


def system_call_filter(_tree: Tree) -> Iterator[Finding]:
    """Without a filter every system call of the kernel is in reach."""
    mode = _status()["Seccomp"]
    if mode != "2":
        yield Finding(f"the student's seccomp mode is {mode}, not 2 (filter)", _CONFINE)


def identity(tree: Tree) -> Iterator[Finding]:
    """All four user and group ids must be the student's: a saved one is got back by a single call."""
    status = _status()
    for name, wanted in (("Uid", tree.uid), ("Gid", tree.gid)):
        if set(status[name].split()) != {str(wanted)}:
            yield Finding(f"{name} of the student's processes is {status[name]}, not {wanted} throughout", _CONFINE)


def supplementary_groups(_tree: Tree) -> Iterator[Finding]:
    """Groups inherited from the agent are root's groups."""
    if os.getgroups():
        yield Finding(f"the student's processes are in groups {os.getgroups()}", _CONFINE)


def becoming_another_user(_tree: Tree) -> Iterator[Finding]:
    """Each way to another uid or gid is tried: one that is open is a way to root."""
    yield from closed("setuid(0)", function, "setuid", 0, fix=_CONFINE)
    yield from closed("setresuid(0, 0, 0)", function, "setresuid", 0, 0, 0, fix=_CONFINE)
    yield from closed("setgid(0)", function, "setgid", 0, fix=_CONFINE)
    yield from closed("setgroups([0])", function, "setgroups", 1, b"\0\0\0\0", fix=_CONFINE)


def mask_of_new_files(_tree: Tree) -> Iterator[Finding]:
    """With a loose mask root's helpers, started with the student's habits, would write files for all."""
    mask = os.umask(0o022)
    os.umask(mask)
    if mask & 0o022 != 0o022:
        yield Finding(f"the student's umask is {mask:04o}", "set it to 0022 in guest/confine.py")


def limits_of_a_process(_tree: Tree) -> Iterator[Finding]:
    """Descriptors, locked memory, queues and pending signals are kernel memory that no memory limit counts well."""
    for name, (kind, most) in _LIMITS.items():
        hard = resource.getrlimit(kind)[1]
        if hard == resource.RLIM_INFINITY or hard > most:
            yield Finding(f"{name} of the student is {'unlimited' if hard < 0 else hard}", f"set it to {most} at most")


def priority(_tree: Tree) -> Iterator[Finding]:
    """A student that runs before the agent can keep it from answering."""
    yield from closed("setpriority(-5)", function, "setpriority", 0, 0, -5, fix=_CONFINE)
    parameter = b"\x01\0\0\0"
    yield from closed("sched_setscheduler(SCHED_FIFO)", function, "sched_setscheduler", 0, 1, parameter, fix=_CONFINE)
    if os.getpriority(os.PRIO_PROCESS, 0) < 0:
        yield Finding("the student's processes start with raised priority", _CONFINE)


def out_of_memory_order(_tree: Tree) -> Iterator[Finding]:
    """Whoever lowers its score has another process killed in its place: the agent."""
    with open("/proc/self/oom_score_adj", encoding="utf-8") as file:
        score = int(file.read())
    yield from closed("lowering oom_score_adj", _lower_oom_score, fix="set a score in guest/confine.py as root")
    if score <= 0:
        yield Finding(f"the student's oom_score_adj is {score}: it is not the first to be killed", _CONFINE)


def locked_memory(_tree: Tree) -> Iterator[Finding]:
    """Memory that can't be taken back, more than a process of a tool ever needs."""
    yield from closed("locking 64 MiB of memory", _lock, 64 * MIB, fix="lower RLIMIT_MEMLOCK", also=(errno.ENOMEM,))


def other_processes(tree: Tree) -> Iterator[Finding]:
    """Names, arguments and timing of the harness's processes; what is not seen is not attacked."""
    for pid in (int(name) for name in os.listdir("/proc") if name.isdigit()):
        try:
            uid = os.stat(f"/proc/{pid}").st_uid
        except OSError:
            continue
        if uid != tree.uid:
            yield Finding(f"/proc/{pid} of uid {uid} is visible", "mount /proc with hidepid=invisible in the session")


def hidden_processes(tree: Tree) -> Iterator[Finding]:
    """What is in no listing may still open by its number."""
    for pid in range(1, _MAX_PID):
        try:
            uid = os.stat(f"/proc/{pid}").st_uid
        except OSError:
            continue
        for name in ("environ", "mem", "maps", "cmdline", "fd", "root", "cwd"):
            if uid != tree.uid and os.access(f"/proc/{pid}/{name}", os.R_OK):
                fix = "mount /proc with hidepid=invisible in the session"
                yield Finding(f"/proc/{pid}/{name} of uid {uid} opens", fix)


def signals_to_others(_tree: Tree) -> Iterator[Finding]:
    """The student must not stop or wake what is not its own."""
    yield from closed("a signal to process 1", function, "kill", 1, signal.SIGCONT.value, fix=_LEADER, also=(errno.ESRCH,))


def tracing_others(_tree: Tree) -> Iterator[Finding]:
    """A traced process does what its tracer wants."""
    arguments = (_PTRACE_SEIZE, 1, None, None)
    yield from closed("ptrace of process 1", function, "ptrace", *arguments, fix=_LEADER, also=(errno.ESRCH,))


def memory_of_others(_tree: Tree) -> Iterator[Finding]:
    """The memory of any process that is not the student's may hold keys, answers or the agent's state."""
    here = ctypes.create_string_buffer(16)
    vector = (ctypes.c_uint64 * 2)(ctypes.addressof(here), len(here))
    arguments = (1, vector, 1, vector, 1, 0)
    yield from closed("process_vm_readv of process 1", call, "process_vm_readv", *arguments, fix=_LEADER, also=(errno.ESRCH,))


def environment(tree: Tree) -> Iterator[Finding]:
    """Variables of the agent or the trainer would be keys and paths; loader variables would be a handle on programs."""
    for name in tree.program["environ"]:
        if _SECRET_NAMES.search(name) or _LOADER_NAMES.search(name):
            yield Finding(f"the student's programs start with {name} set", "leave it out of guest/confine.py: clean_env")


def inherited_descriptors(tree: Tree) -> Iterator[Finding]:
    """A descriptor of root's that slips through an exec opens what its path would refuse."""
    for number, target in tree.program["descriptors"].items():
        if int(number) > _LAST_STANDARD:
            yield Finding(f"the student's programs inherit descriptor {number} ({target})", "close it before the exec")


def controlling_terminal(tree: Tree) -> Iterator[Finding]:
    """A shared terminal is a keyboard for whoever reads it next."""
    if tree.program["terminal"]:
        yield Finding("the student's programs have a controlling terminal", "start them in a session of their own")


def ignored_signals(tree: Tree) -> Iterator[Finding]:
    """Programs that start with ignored signals can't be interrupted the ordinary way, and pipes behave strangely."""
    for number in tree.program["ignored"]:
        yield Finding(f"the student's programs start with signal {number} ignored", _CONFINE)


LIVE_PROBES: tuple[Probe, ...] = (
    capabilities, no_new_privileges, system_call_filter, identity, supplementary_groups, becoming_another_user,
    mask_of_new_files, limits_of_a_process, priority, out_of_memory_order, locked_memory, other_processes,
    hidden_processes, signals_to_others, tracing_others, memory_of_others, environment, inherited_descriptors,
    controlling_terminal, ignored_signals,
)  # fmt: skip


def _status() -> dict[str, str]:
    with open("/proc/self/status", encoding="utf-8") as file:
        return {name: value.strip() for name, _, value in (line.partition(":") for line in file)}


def _lower_oom_score() -> int:
    with open("/proc/self/oom_score_adj", "w", encoding="utf-8") as file:
        file.write("-1000")
    return 0


def _lock(size: int) -> int:
    pages = mmap.mmap(-1, size)
    return function("mlock", ctypes.c_void_p(ctypes.addressof(ctypes.c_char.from_buffer(pages))), ctypes.c_size_t(size))
