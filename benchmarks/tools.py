"""What the student's tools cost through `env.step`: a command, much output, a view, a replacement.

Output is held against `cat` of the same file within the machine through a pipe, which is what output has to go through at
least, timed by the machine's own shell in the same minute. `cat` into /dev/null moves no byte anywhere and is shown for scale.
The growth of this process's memory is its peak over the call, which the kernel counts from a mark set before it.
"""

from __future__ import annotations

import argparse
import re
import sys
import time
from pathlib import Path
from typing import Any

import gymnasium as gym

sys.path.insert(0, str(Path(__file__).parent.parent))
from benchmarks.measure import Samples, report

OUTPUT_BYTES = 100_000_000
VIEWED_LINES = 1000
FILE_BYTES = 1 << 20
WARM_UP = 5  # the emulator translates the code of a call during the first ones
COMMANDS = 300
COMMAND_WARM_UP = 100
MIB = 1 << 20
GROWTH = "growth of this process over 100 MB of output"


def call(env: gym.Env[Any, Any], name: str, **arguments: Any) -> str:
    """One call; its text. A tool that fails has no speed to be measured."""
    obs, _, _, _, info = env.step({"name": name, "arguments": arguments})
    assert info["tool"]["exit_code"] == 0, obs["content"][:500]
    return str(obs["content"])


def prepare(env: gym.Env[Any, Any]) -> None:
    """Files to work on, in the cache of the machine as a student's own files are."""
    line = "a line of a program as long as lines are;"
    call(env, "bash", command=f"yes '{line}' | head -c {OUTPUT_BYTES} > much; cat much > /dev/null", timeout=300)
    call(
        env,
        "bash",
        command=f"seq {2 * VIEWED_LINES} | sed 's/$/ {line}/' > lines; seq 200000 | head -c {FILE_BYTES} > mebibyte",
    )
    time.sleep(2.0)  # the first step begins to restore the grader machine beside it: a cost of the episode, not of a step


def commands(env: gym.Env[Any, Any], samples: Samples) -> None:
    """The smallest command."""
    for number in range(COMMAND_WARM_UP + COMMANDS):
        start = time.perf_counter()
        call(env, "bash", command="true")
        if number >= COMMAND_WARM_UP:
            samples.add("bash true", time.perf_counter() - start)


def much_output(env: gym.Env[Any, Any], samples: Samples, memory: Samples) -> None:
    """100 MB, of which head and tail are kept, against what they cost where they are."""
    samples.add("cat into /dev/null, in the machine", timed_inside(env, "cat much > /dev/null"))
    samples.add("cat | cat into /dev/null, in the machine", timed_inside(env, "cat much | cat > /dev/null"))
    Path("/proc/self/clear_refs").write_text("5")  # the peak is counted from here
    before = status("VmRSS")
    with samples.time("bash cat, 100 MB of output"):
        text = call(env, "bash", command="cat much", timeout=120)
    memory.add(GROWTH, max(0, status("VmHWM") - before))
    assert "bytes" in text and len(text) < MIB


def timed_inside(env: gym.Env[Any, Any], command: str) -> float:
    """Seconds by the clock of the machine's own shell, which pays for no call of ours."""
    text = call(env, "bash", command=f"TIMEFORMAT='took %R'; time {{ {command}; }}", timeout=120)
    found = re.search(r"took ([0-9.]+)", text)
    assert found is not None, text
    return float(found[1])


def status(field: str) -> int:
    """A size of this process in bytes, as the kernel counts it."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(f"{field}:"):
            return int(line.split()[1]) * 1024
    raise LookupError(field)


def files(env: gym.Env[Any, Any], samples: Samples, number: int) -> None:
    """A view of many lines, and a change near the end of a file."""
    with samples.time(f"view of {VIEWED_LINES} lines"):
        text = call(env, "view_lines_in_file", path="lines", start=501, end=500 + VIEWED_LINES)
    assert text.count("\n") == VIEWED_LINES, text[-200:]
    old, new = (("149999\n" if each == 0 else f"changed {each}\n") for each in (number, number + 1))
    with samples.time("replace in a file of 1 MiB"):
        call(env, "replace_in_file", path="mebibyte", old=old, new=new)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-n", type=int, default=20, help="repetitions of all but the smallest command")
    count = parser.parse_args().n
    samples, memory = Samples("tools"), Samples("memory", unit="MiB", scale=1 / MIB)
    env = gym.make("karotte_gym:karotte/q3-revenue")
    env.reset(seed=1)
    try:
        prepare(env)
        commands(env, samples)
        for number in range(WARM_UP + count):  # in turn, so that a noisy neighbour meets all of them
            kept = number >= WARM_UP
            much_output(env, samples if kept else Samples("warm-up"), memory if kept else Samples("warm-up"))
            files(env, samples if kept else Samples("warm-up"), number)
    finally:
        env.close()
    output_s = samples.median("bash cat, 100 MB of output")
    ratios = {
        "bash true through env.step, ms": (samples.median("bash true") * 1000, "<= 5"),
        "100 MB of output / cat of it through a pipe": (
            output_s / samples.median("cat | cat into /dev/null, in the machine"),
            "<= 2",
        ),
        "host memory over 100 MB of output, MiB": (max(memory.values[GROWTH]) / MIB, "<= 16"),
        "view of 1,000 lines, ms": (samples.median(f"view of {VIEWED_LINES} lines") * 1000, "<= 150"),
        "replace in 1 MiB, ms": (samples.median("replace in a file of 1 MiB") * 1000, "<= 150"),
    }
    return 0 if report("tools", samples, memory, ratios=ratios) else 1


if __name__ == "__main__":
    raise SystemExit(main())
