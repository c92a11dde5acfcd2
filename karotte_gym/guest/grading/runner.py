"""Runs a scoring script: ``runner.py READY_FD``; see `guest.scoring`. It waits for instructions on standard input.

The interpreter is isolated (-I -S: no working directory, user's site or environment on its path, no .pth files) and is
started again when its environment is not the reduced one. Instructions are JSON: {"argv": [script, submission_dir,
root_data_dir, result_path], "work": its directory and home, "address_space_bytes": number or null}. The script finds
itself in sys.argv as if it had been called directly, and can import the standard library, root's own dist-packages,
what lies beside it, and `karotte_grading`.
"""

from __future__ import annotations

import csv  # noqa: F401 - this and the next one are what scripts import most: loaded ahead, in the snapshot
import decimal  # noqa: F401
import gc
import json
import os
import resource
import runpy
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
DIST_PACKAGES = "/usr/lib/python3/dist-packages"


def main() -> None:
    """Take the limits upon this process and become the script."""
    _hygiene(sys.argv)
    _load_ahead()
    gc.freeze()  # what is there stays: the collections at the end of the script, too, look at less
    os.close(int(sys.argv[1]))  # tells the agent that this interpreter is ready
    instructions = json.load(sys.stdin)
    _enter(instructions["work"])
    _limit(instructions)
    sys.argv = instructions["argv"]
    script = sys.argv[0]
    sys.path[:0] = [os.path.dirname(script)]
    sys.path += [HERE, DIST_PACKAGES]
    runpy.run_path(script, run_name="__main__")


def _hygiene(arguments: list[str]) -> None:
    sys.path.insert(0, os.path.dirname(HERE))
    import hygiene

    hygiene.restart_clean([os.path.abspath(arguments[0]), *arguments[1:]])
    del sys.path[0]


def _load_ahead() -> None:
    """`karotte_grading`, in the snapshot as well: its import takes a sizeable part of a short script's time."""
    sys.path.insert(0, HERE)
    import karotte_grading  # noqa: F401

    del sys.path[0]


def _enter(work: str) -> None:
    os.chdir(work)
    os.environ["HOME"] = work
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)


def _limit(config: dict[str, object]) -> None:
    """From here on the script can't take more; the group that bounds its memory was made by the agent, who put it there.

    The agent runs with a priority and a protection from the kernel's killer that are not for others.
    """
    with open("/proc/self/oom_score_adj", "w", encoding="ascii") as stream:
        stream.write("500")
    os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))
    os.setpriority(os.PRIO_PROCESS, 0, 0)
    if isinstance(config["address_space_bytes"], int):
        resource.setrlimit(resource.RLIMIT_AS, (config["address_space_bytes"],) * 2)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    os.umask(0o077)


if __name__ == "__main__":
    main()
