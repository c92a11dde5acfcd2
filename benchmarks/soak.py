"""Many episodes in a row, honest ones and attacks mixed: nothing left over, no wrong reward, no infrastructure error.

``python benchmarks/soak.py -n 200`` plays honest episodes; ``-n 1000 --attacks FILE`` makes every second one a random
attack of that pack. The census is taken after a warm-up and at the end; memory of the parent may grow by 16 MiB, which
is an allocator's noise and far below one episode's leak times the count.
"""

from __future__ import annotations

import argparse
import gc
import json
import random
import sys
import time
from pathlib import Path
from typing import Any

import gymnasium as gym

import karotte_gym  # noqa: F401 - registers the environments

sys.path.insert(0, str(Path(__file__).parent.parent))
from benchmarks import census
from karotte_gym.agents.scripted import play
from karotte_gym.redteam import Attack, load_pack, solution_of
from karotte_gym.redteam.verdict import Outcome, verdict_on
from karotte_gym.registration import load_task

WARM_UP = 5
MEMORY_SLACK_BYTES = 16 << 20


def soak(task: str, episodes: int, attacks: list[Attack], seed: int, progress: bool = True) -> list[str]:
    """Play and return every finding; an empty list is the proof."""
    chance = random.Random(seed)
    solution = solution_of(load_task(task))
    env = gym.make(f"karotte/{task}")
    findings: list[str] = []
    before: census.Census | None = None
    started = time.monotonic()
    for number in range(WARM_UP + episodes):
        if number == WARM_UP:
            gc.collect()
            before = census.take()
        attack = chance.choice(attacks) if attacks and number % 2 else None
        found = [f"episode {number}: {finding}" for finding in _episode(env, solution, attack)]
        findings += found
        if progress and (found or number % 20 == 0):
            elapsed = time.monotonic() - started
            print(f"{number}/{WARM_UP + episodes} episodes, {elapsed:.0f} s, {len(findings)} findings", *found, flush=True)
    env.reset(seed=0)  # as at the first census: an episode's end leaves what the next reset gives back
    env.close()
    gc.collect()
    assert before is not None
    findings += census.take().growth(before, memory_slack_bytes=MEMORY_SLACK_BYTES)
    return findings


def _episode(env: gym.Env[Any, Any], solution: list[Any], attack: Attack | None) -> list[str]:
    if attack is None:
        reward = play(env, solution).reward
        return [] if reward == 1.0 else [f"the honest script earned {reward}"]
    started = time.monotonic()
    played = play(env, attack.calls)
    outcome = Outcome(attack)
    outcome.reward, outcome.outputs, outcome.finished = played.reward, played.outputs, played.finished
    outcome.misbehavior = played.info.get("misbehavior")
    outcome.seconds = time.monotonic() - started
    return [f"{attack.name}: {failure}" for failure in verdict_on(outcome)]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-n", type=int, default=200, help="episodes after the warm-up")
    parser.add_argument("--task", default="q3-revenue")
    parser.add_argument("--attacks", type=Path, help="a pack; every second episode is one of its attacks")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    attacks = load_pack(arguments.attacks) if arguments.attacks else []
    findings = soak(arguments.task, arguments.n, attacks, arguments.seed)
    print(json.dumps({"episodes": arguments.n, "attacks": bool(attacks), "findings": findings}, indent=1))
    return 1 if findings else 0


if __name__ == "__main__":
    raise SystemExit(main())
