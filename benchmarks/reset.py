"""From nothing to a tool's first result: a cold boot against a restored clone, stages apart, medians over one run.

Also: one ``bash`` call through ``env.step``, the private memory of an idle clone, and the host's own ``bash -c true``
for scale. The headline is `restore, together`, from asking for a machine to the first tool result.
"""

from __future__ import annotations

import argparse
import contextlib
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import gymnasium as gym

sys.path.insert(0, str(Path(__file__).parent.parent))
from benchmarks.measure import Samples, report
from karotte_gym.config import Limits
from karotte_gym.sandbox import boot, drive, machines, snapshot
from karotte_gym.sandbox.contract import MachineSpec
from karotte_gym.sandbox.machine_sandbox import session_parameters

FIRST_COMMAND = "head -1 data/orders.csv"
STEPS = 300
WARM_UP_STEPS = 100  # the emulator translates the code of a call during the first ones
WARM_AGAIN_STEPS = 10  # what another machine has taken from the processor's caches in between


def cold(samples: Samples, recipe: snapshot.Recipe) -> None:
    """Boot, prepare, session, first command: what every episode would cost without snapshots."""
    start = time.perf_counter()
    data = drive.build(recipe.spec.role, recipe.spec.drive, recipe.drive_key)
    with data, tempfile.TemporaryDirectory(prefix="karotte-bench-") as directory:
        scratch, disk_mib = Path(directory) / "scratch", recipe.spec.hardware.disk_mib
        with boot.boot(recipe.hull, recipe.image, data.path / drive.FILE, scratch, disk_mib) as booted:
            samples.add("cold: boot to the agent's hello", time.perf_counter() - start)
            with samples.time("cold: prepare (disk, data, limits probed, warm-up)"):
                snapshot.prepare_machine(recipe, booted)
            with samples.time("cold: session"):
                booted.channel.call("session_start", session_parameters(Limits(), recipe.spec.hardware), timeout_s=30.0)
            with samples.time("cold: first command"):
                parameters = {"command": FIRST_COMMAND, "timeout_s": 30.0, "restart": False}
                booted.channel.call("bash", parameters, timeout_s=30.0)
            samples.add("cold, together", time.perf_counter() - start)


def restored(samples: Samples, memory: Samples, spec: MachineSpec) -> None:
    """Clone, session, first command, teardown."""
    start = time.perf_counter()
    sandbox = machines.start(spec)
    samples.add("restore: clone to renewed", time.perf_counter() - start)
    with samples.time("restore: session"):
        sandbox.start_session(Limits())
    with samples.time("restore: first command"):
        sandbox.bash(FIRST_COMMAND, timeout_s=30.0)
    samples.add("restore, together", time.perf_counter() - start)
    with samples.time("restore: teardown"):
        sandbox.close()
    other, idle = machines.start(spec), machines.start(spec)  # pages that two map are shared, and none else
    memory.add("private memory of an idle clone", private_bytes(idle.pid))
    other.close()
    idle.close()


def private_bytes(pid: int) -> int:
    """Private pages, clean and dirty, of a process as the kernel counts them."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return 1024 * sum(int(line.split()[1]) for line in lines if line.startswith("Private_"))


CALL = {"name": "bash", "arguments": {"command": "true"}}


def warm_environment() -> gym.Env[Any, Any]:
    """One that has been stepped for a while."""
    env = gym.make("karotte_gym:karotte/q3-revenue")
    env.reset(seed=1)
    env.step(CALL)
    time.sleep(2.0)  # the first step begins to restore the grader machine beside it: a cost of the episode, not of a step
    for _ in range(WARM_UP_STEPS):
        env.step(CALL)
    return env


def steps(samples: Samples, env: gym.Env[Any, Any], count: int) -> None:
    """One `bash` call through the whole stack of wrappers, against a shell of the host's own."""
    for _ in range(WARM_AGAIN_STEPS):
        env.step(CALL)
    for _ in range(count):
        with samples.time("env.step: bash true"):
            env.step(CALL)
    for _ in range(count):
        with samples.time("the host's own bash -c true"):
            subprocess.run(["bash", "-c", "true"], check=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-n", type=int, default=10, help="cold boots and restores")
    count = parser.parse_args().n
    from karotte_gym.registration import load_task

    spec = load_task("q3-revenue").student_machine()
    machines.prepare(spec)
    recipe = machines.recipe(spec)
    samples, memory = Samples("stages"), Samples("memory", unit="MiB", scale=1 / (1 << 20))
    restored(Samples("warm-up"), Samples("warm-up"), spec)
    with contextlib.closing(warm_environment()) as env:
        for _ in range(count):  # in turn, so that a noisy neighbour meets all
            steps(samples, env, max(1, STEPS // count))
            cold(samples, recipe)
            restored(samples, memory, spec)
    step_ms = samples.median("env.step: bash true") * 1000
    ratios = {
        "cold boot / restore, to the first tool result": (
            samples.median("cold, together") / samples.median("restore, together"),
            ">= 10",
        ),
        "one bash call through env.step, ms": (step_ms, "<= 5"),
        "private memory of an idle clone, MiB": (memory.median("private memory of an idle clone") / (1 << 20), "<= 64"),
    }
    return 0 if report("reset", samples, memory, ratios=ratios) else 1


if __name__ == "__main__":
    raise SystemExit(main())
