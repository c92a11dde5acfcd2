"""A whole episode, stage by stage: custody and grading of a small submission, and with 200,000 files left behind.

Warm, that is with the image, the snapshots and their pages in memory, and the grader machine restored while the student
works, as `CustodyGrading` does it. The submit step is custody, the copy, the grader and the record together.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

import gymnasium as gym

sys.path.insert(0, str(Path(__file__).parent.parent))
from benchmarks.measure import Samples, report

ANSWER = {"name": "bash", "arguments": {"command": "echo 63148 > /workdir/data/answer.txt"}}
SUBMIT = {"name": "submit", "arguments": {"message": "done"}}
MANY_FILES = 200_000
THINKING_S = 0.5  # before each action; a model takes longer
MAKE_MANY = f"""python3 - <<'EOF'
import os
for d in range({MANY_FILES // 1000}):
    os.mkdir(f'/workdir/many{{d}}'); os.chdir(f'/workdir/many{{d}}')
    for i in range(1000): os.mknod(str(i))
print('made')
EOF"""


def small(env: gym.Env, samples: Samples) -> None:
    """One call and submit."""
    start = time.perf_counter()
    with samples.time("reset"):
        env.reset(seed=1)
    time.sleep(THINKING_S)  # the shell gets to its prompt meanwhile
    with samples.time("first call"):
        env.step(ANSWER)
    time.sleep(THINKING_S)  # the grader machine is restored meanwhile
    with samples.time("submit: custody and grading"):
        reward = env.step(SUBMIT)[1]
    samples.add("whole episode without the thinking", time.perf_counter() - start - 2 * THINKING_S)
    assert reward == 1.0, reward


def littered(env: gym.Env, samples: Samples) -> None:
    """The same with a workspace full of files that nobody asked for."""
    env.reset(seed=1)
    made = env.step({"name": "bash", "arguments": {"command": MAKE_MANY, "timeout": 600}})[0]["content"]
    assert "made" in made, made
    env.step(ANSWER)
    with samples.time(f"submit with {MANY_FILES:,} files left"):
        reward = env.step(SUBMIT)[1]
    assert reward == 1.0, reward


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-n", type=int, default=15, help="small episodes")
    parser.add_argument("--littered", type=int, default=3, help="episodes with many files")
    arguments = parser.parse_args()
    samples = Samples("stages")
    env = gym.make("karotte_gym:karotte/q3-revenue")
    small(env, Samples("warm-up"))
    for _ in range(arguments.n):
        small(env, samples)
    for _ in range(arguments.littered):
        littered(env, samples)
    env.close()
    litter = samples.median(f"submit with {MANY_FILES:,} files left")
    ratios = {
        "custody and grading of a small submission, s": (samples.median("submit: custody and grading"), "<= 1.0"),
        f"the same with {MANY_FILES:,} files left, s": (litter, "<= 2.5"),
        "whole episode of one call and submit, s": (samples.median("whole episode without the thinking"), "<= 2.0"),
    }
    return 0 if report("episode", samples, ratios=ratios) else 1


if __name__ == "__main__":
    raise SystemExit(main())
