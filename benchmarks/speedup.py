"""The clock of the speedup environment: `python benchmarks/speedup.py [-n REPEATS] [--no-cheats]`.

Whole episodes, each graded in a grader machine of its own: the slow function against itself must measure 1, a candidate
that does a third of its work about 3, and no cheat of the environment's own may gain. What a third of the work comes to
is measured as well, by processor time, in one process of the student's without any of the grader's machinery.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

import gymnasium as gym
from rich.console import Console

sys.path.insert(0, str(Path(__file__).parent.parent))
from benchmarks.measure import Samples, report
from karotte_gym.agents.scripted import load_script, play
from karotte_gym.registration import load_task

FOLDER = load_task("speedup").folder()
FAST = "/workdir/data/fast.py"
SUBMIT = {"name": "submit", "arguments": {"message": "done"}}
# 99 of 144 numbers are looked up, 45 are compared with all others: right for any input, and a third of the work when the
# look-ups and the sorting are counted in. Multiples of 89 are spread evenly over 144, so it is the same share of any length.
THIRD = """import bisect


def neighbours(values, distance):
    ordered = sorted(values)
    counts = []
    for i, here in enumerate(values):
        if i * 89 % 144 < 99:
            first = bisect.bisect_left(ordered, here - distance)
            counts.append(bisect.bisect_right(ordered, here + distance) - first - 1)
            continue
        count = 0
        for j, there in enumerate(values):
            if i != j and abs(here - there) <= distance:
                count += 1
        counts.append(count)
    return counts
"""
IN_ONE_PROCESS = """cd /workdir/data && python3 -I - <<'EOF'
import random, sys, time
sys.path.insert(0, "/workdir/data")
import fast, slow
rng, ratios = random.Random(1), []
def used(function):
    begun = time.process_time()
    function(values, 10**6)
    return time.process_time() - begun
for _ in range(15):
    values = [rng.randrange(10**9) for _ in range(400)]
    first, second = used(slow.neighbours), used(fast.neighbours)
    ratios.append((first + used(slow.neighbours)) / (second + used(fast.neighbours)))
print(sorted(ratios)[7])
EOF"""


def bash(command: str) -> dict[str, Any]:
    return {"name": "bash", "arguments": {"command": command}}


def write(source: str) -> dict[str, Any]:
    return bash(f"cat > {FAST} <<'EOF'\n{source}EOF")


def disturbing() -> str:
    """The candidate with a third of the work that keeps the kernel busy while it is frozen: a cheat that multiplies."""
    attack = load_script(FOLDER / "attacks" / "rival_disturbed_while_frozen.json")
    source = attack[0]["arguments"]["command"].partition("\n")[2].removesuffix("EOF")
    assert source.count("found = slow(values, distance)") == 1
    source = source.replace("found = slow(values, distance)", "found = third(values, distance)")
    return f"{THIRD.replace('def neighbours', 'def third')}\n\n{source}"


def measured(env: gym.Env[Any, Any], calls: list[Any]) -> tuple[float, dict[str, Any], list[str]]:
    """Reward, the grader's figures, and what the calls answered."""
    played = play(env, calls)
    return played.reward, played.info["scoring"], played.outputs


def repeat(env: gym.Env[Any, Any], samples: Samples, name: str, source: str, times: int) -> None:
    """The ratio of one candidate, again and again."""
    for _ in range(times):
        _, figures, outputs = measured(env, [write(source), bash(IN_ONE_PROCESS), SUBMIT])
        samples.add(name, figures["ratio"])
        samples.add(f"{name}, by the clock", figures["ratio_by_the_clock"])
        samples.add(f"{name}, in one process", float(outputs[1].split()[0]))
        Console().print(f"{name}: {figures['ratio']} {figures['ratios']}")


def cheats(env: gym.Env[Any, Any], samples: Samples) -> float:
    """The most that any of the environment's own attacks earned."""
    most = 0.0
    for path in sorted((FOLDER / "attacks").glob("*.json")):
        reward, figures, _ = measured(env, load_script(path))
        samples.add(f"cheat {path.stem}", figures.get("ratio", 0.0))
        Console().print(f"{path.stem}: {reward} {figures['reason']} {figures.get('ratio', '')}")
        most = max(most, reward)
    return most


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-n", type=int, default=10, help="gradings of each honest candidate")
    parser.add_argument("--no-cheats", action="store_true", help="leave the attacks out")
    arguments = parser.parse_args()
    samples = Samples("ratios; 0: refused, not timed", unit="times as fast", scale=1.0)
    with gym.make("karotte_gym:karotte/speedup") as env:
        repeat(env, samples, "itself", (FOLDER / "student_data" / "slow.py").read_text(), arguments.n)
        repeat(env, samples, "a third", THIRD, arguments.n)
        if not arguments.no_cheats:
            repeat(env, samples, "a third that disturbs", disturbing(), 2)
        most = 0.0 if arguments.no_cheats else cheats(env, samples)
    itself, third = samples.values["itself"], samples.values["a third"]
    ratios = {
        "itself, lowest": (min(itself), ">= 0.95"),
        "itself, highest": (max(itself), "<= 1.05"),
        "a third of the work, lowest": (min(third), ">= 2.7"),
        "a third of the work, highest": (max(third), "<= 3.3"),
    }
    if not arguments.no_cheats:
        ratios["a third that disturbs, highest"] = (max(samples.values["a third that disturbs"]), "<= 3.3")
        ratios["reward of the best cheat"] = (most, "<= 0")
    return 0 if report("speedup", samples, ratios=ratios) else 1


if __name__ == "__main__":
    raise SystemExit(main())
