"""Settings of the kernel: what an unprivileged user must not reach, closed once at boot. Reasons: docs/hardening.md.

A setting that this kernel does not have is a feature that it does not have. One that is there and can't be written ends
the boot: a machine that is not hardened must not look like one that is.
"""

from __future__ import annotations

import os

__all__ = ["SETTINGS", "apply"]

# In this order; the last one closes the door that the others came through.
SETTINGS: tuple[tuple[str, str], ...] = (
    ("kernel/core_pattern", "|/bin/false"),  # no dump is ever written, nor a helper with arguments of a crash started
    ("fs/suid_dumpable", "0"),
    ("kernel/kptr_restrict", "2"),
    ("kernel/dmesg_restrict", "1"),
    ("kernel/perf_event_paranoid", "3"),
    ("kernel/unprivileged_bpf_disabled", "1"),
    ("net/core/bpf_jit_harden", "2"),
    ("vm/unprivileged_userfaultfd", "0"),
    ("kernel/io_uring_disabled", "2"),
    ("user/max_user_namespaces", "0"),
    ("kernel/yama/ptrace_scope", "1"),
    ("kernel/kexec_load_disabled", "1"),
    ("kernel/sysrq", "0"),  # keys and serial breaks; root's own trigger file keeps working
    ("kernel/randomize_va_space", "2"),
    ("kernel/panic_on_oops", "1"),  # a kernel that was hit goes down instead of going on
    ("dev/tty/ldisc_autoload", "0"),
    ("dev/tty/legacy_tiocsti", "0"),
    ("fs/protected_symlinks", "1"),
    ("fs/protected_hardlinks", "1"),
    ("fs/protected_fifos", "2"),
    ("fs/protected_regular", "2"),
    # Kernel memory that no control group may be there to count. Pipes of one user: 64 MiB; open files of all: 25 MiB.
    ("fs/pipe-user-pages-hard", "16384"),
    ("fs/file-max", "100000"),
    ("kernel/pty/reserve", "32"),  # kept for the first mount namespace; the default is more than all there are below
    ("kernel/pty/max", "256"),
    ("kernel/pid_max", "32768"),
    ("kernel/threads-max", "16384"),  # by default this follows RAM and would be under the student's 2,048 plus ours
    ("vm/overcommit_memory", "0"),
    ("vm/swappiness", "0"),
    ("kernel/modules_disabled", "1"),
)


def apply(root: str = "/proc/sys") -> list[str]:
    """Write all of them; returns the names that this kernel lacks."""
    missing = []
    for name, value in SETTINGS:
        path = f"{root}/{name}"
        if not os.path.exists(path):
            missing.append(name)
            continue
        with open(path, "w") as file:
            file.write(value)
    return missing
