"""What a process gives up before its first instruction as the student, and the plain profile of root's programs.

All of it runs in a freshly forked child of the leader, still root, before exec (or before a function of ours that is to
run with the student's rights). The bounding set is emptied once, in the leader; everything here is inherited by
whatever the child starts and can't be undone without a capability.
"""

from __future__ import annotations

import os
import resource
import signal
from collections.abc import Mapping

from . import syscalls
from .seccomp import build_filter

__all__ = ["FILTER", "STUDENT_GID", "STUDENT_UID", "become_plain_root", "become_student", "clean_env"]

STUDENT_UID = STUDENT_GID = 1000
FILTER = build_filter()

# Hard limits. Descriptors: 2,048 processes times 4,096 is bounded by fs.file-max, set when the machine starts.
# Locked memory, pending signals and message queues are kernel memory that outlives no session.
_RLIMITS = (
    (resource.RLIMIT_CORE, 0, 0),
    (resource.RLIMIT_NOFILE, 1024, 4096),
    (resource.RLIMIT_MEMLOCK, 65536, 65536),
    (resource.RLIMIT_SIGPENDING, 4096, 4096),
    (resource.RLIMIT_MSGQUEUE, 819200, 819200),
    (resource.RLIMIT_NICE, 0, 0),
    (resource.RLIMIT_RTPRIO, 0, 0),
    (resource.RLIMIT_STACK, 8 << 20, resource.RLIM_INFINITY),
)


def clean_env() -> dict[str, str]:
    """The student's whole environment; nothing of the agent's is inherited."""
    return {
        "HOME": "/workdir",
        "LANG": "C.UTF-8",
        "LOGNAME": "student",
        "PATH": "/usr/local/bin:/usr/bin:/bin",
        "SHELL": "/bin/bash",
        "TERM": "dumb",
        "USER": "student",
    }


def root_env() -> dict[str, str]:
    """The environment of root's own programs: no place that anybody else can write is in PATH."""
    return {"HOME": "/root", "LANG": "C.UTF-8", "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}


def become_student(max_processes: int | None, uid: int = STUDENT_UID, *, first: bool = False) -> None:
    """Give up everything, for good. `max_processes` is a floor for machines without control groups.

    `uid` is another one for a service, which is to have no more rights than the student, and none of the student's.
    `first`: before all others of its group whenever it wants the processor.
    """
    _first_to_be_killed()
    _take_turn(first)
    _default_signals()
    for kind, soft, hard in _RLIMITS:
        # A hard limit can only be lowered where root itself is confined (tests on a host without CAP_SYS_RESOURCE).
        ceiling = resource.getrlimit(kind)[1]
        if ceiling != resource.RLIM_INFINITY:
            hard = ceiling if hard == resource.RLIM_INFINITY else min(hard, ceiling)
        resource.setrlimit(kind, (soft if hard == resource.RLIM_INFINITY else min(soft, hard), hard))
    if max_processes is not None:
        resource.setrlimit(resource.RLIMIT_NPROC, (max_processes, max_processes))
    os.umask(0o022)
    os.setgroups([])
    os.setresgid(uid, uid, uid)
    os.setresuid(uid, uid, uid)
    syscalls.clear_capabilities()
    syscalls.prctl(syscalls.PR_SET_NO_NEW_PRIVS, 1)
    syscalls.seccomp_filter(FILTER)


def become_plain_root(*, first: bool = False) -> None:
    """For root's programs: none of the agent's own privileges over the scheduler and the OOM killer. `first` as above."""
    _write_oom_score(0)
    _take_turn(first)
    _default_signals()
    os.umask(0o022)


def _take_turn(first: bool) -> None:
    """Never lower in between: one that comes first has been it since its birth."""
    if first:
        syscalls.come_first()
    else:
        os.setpriority(os.PRIO_PROCESS, 0, 0)


def _first_to_be_killed() -> None:
    """When memory runs out the kernel takes the student's processes first. Written as root, so it can't be lowered."""
    _write_oom_score(1000)


def _write_oom_score(score: int) -> None:
    with open("/proc/self/oom_score_adj", "w") as file:
        file.write(str(score))


def _default_signals() -> None:
    for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
        if signal.getsignal(number) is not signal.SIG_DFL and number not in (32, 33):
            signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


def merged(base: Mapping[str, str], extra: Mapping[str, str] | None) -> dict[str, str]:
    """`base` with `extra` over it."""
    return {**base, **(extra or {})}
