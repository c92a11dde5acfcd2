"""Runs a scoring script: ``runner.py CONFIG SCRIPT SUBMISSION_DIR ROOT_DATA_DIR RESULT_PATH``; see `guest.scoring`.

The interpreter is isolated (-I -S: no working directory, user's site or environment on its path, no .pth files) and is
started again when its environment is not the reduced one. CONFIG is JSON: {"group": cgroup directory or null,
"address_space_bytes": number or null}. The script finds itself in sys.argv as if it had been called directly, and can
import the standard library, root's own dist-packages, what lies beside it, and `karotte_grading`.
"""

from __future__ import annotations

import json
import os
import resource
import runpy
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
DIST_PACKAGES = "/usr/lib/python3/dist-packages"


def main() -> None:
    """Take the limits upon this process and become the script."""
    config, script, *arguments = sys.argv[1:]
    _hygiene(sys.argv)
    _limit(json.loads(config))
    sys.argv = [script, *arguments]
    sys.path[:0] = [os.path.dirname(script)]
    sys.path += [HERE, DIST_PACKAGES]
    runpy.run_path(script, run_name="__main__")


def _hygiene(arguments: list[str]) -> None:
    sys.path.insert(0, os.path.dirname(HERE))
    import hygiene

    hygiene.restart_clean([os.path.abspath(arguments[0]), *arguments[1:]])
    del sys.path[0]


def _limit(config: dict[str, object]) -> None:
    """From here on the script can't take more; the group was made by the agent, its limits are set.

    The agent runs with a priority and a protection from the kernel's killer that are not for others.
    """
    with open("/proc/self/oom_score_adj", "w", encoding="ascii") as stream:
        stream.write("500")
    os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))
    os.setpriority(os.PRIO_PROCESS, 0, 0)
    if config["group"] is not None:
        with open(f"{config['group']}/cgroup.procs", "w", encoding="ascii") as stream:
            stream.write("0")
    if isinstance(config["address_space_bytes"], int):
        resource.setrlimit(resource.RLIMIT_AS, (config["address_space_bytes"],) * 2)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    os.umask(0o077)


if __name__ == "__main__":
    main()
