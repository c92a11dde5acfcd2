"""Plays attacks, several machines at a time, each followed by an honest episode in the same environment object."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from typing import Any

import gymnasium as gym

from karotte_gym.agents.scripted import play
from karotte_gym.env import KarotteEnv
from karotte_gym.redteam.pack import Attack, fitted, solution_of
from karotte_gym.redteam.verdict import TOLERANCE, Outcome, verdict_on
from karotte_gym.registration import load_task

__all__ = ["play_attack", "run_attacks"]

HANG_GRACE_S = 60.0  # over the case's own time the machine is destroyed, so that a hang is a finding and no hang


def run_attacks(
    task: str,
    attacks: Sequence[Attack],
    *,
    parallel: int = 2,
    env_kwargs: dict[str, Any] | None = None,
    honest_after: bool = True,
    on_outcome: Callable[[Outcome], None] | None = None,
) -> list[Outcome]:
    """All outcomes, in the order of `attacks`; each is handed to `on_outcome` when it is there."""
    task_class = load_task(task)
    fitting = [fitted(attack, task_class) for attack in attacks]
    solution = solution_of(task_class) if honest_after else None
    with ThreadPoolExecutor(max_workers=parallel, thread_name_prefix="redteam") as pool:
        waiting = {
            pool.submit(
                play_attack, task_class.id, attack, solution, env_kwargs or {}, task_class.score_tolerance or TOLERANCE
            ): index
            for index, attack in enumerate(fitting)
        }
        outcomes: dict[int, Outcome] = {}
        try:
            for done in as_completed(waiting):
                outcomes[waiting[done]] = done.result()
                if on_outcome is not None:
                    on_outcome(done.result())
        finally:
            pool.shutdown(wait=False, cancel_futures=True)  # an interrupt waits for the attacks under way, for no others
    return [outcomes[index] for index in sorted(outcomes)]


def play_attack(
    task_id: str,
    attack: Attack,
    solution: list[Any] | None,
    env_kwargs: dict[str, Any],
    tolerance: float = TOLERANCE,
) -> Outcome:
    """One attack and the honest episode after it. A fault becomes the outcome's error; only interrupts raise."""
    outcome = Outcome(attack)
    env = gym.make(f"karotte/{task_id}", **env_kwargs)
    try:
        _attack(env, outcome)
        if solution is not None and outcome.error is None:
            outcome.honest_reward = play(env, solution).reward
    except Exception as error:  # whatever it is, it is this attack's outcome, and the others go on
        outcome.error = f"{type(error).__name__}: {error}"
    finally:
        env.close()
    outcome.failures = verdict_on(outcome, tolerance=tolerance)
    return outcome


def _attack(env: gym.Env[Any, Any], outcome: Outcome) -> None:
    started = time.monotonic()
    watchdog = threading.Timer(outcome.attack.expect.max_seconds + HANG_GRACE_S, _destroy_machine, [env])
    watchdog.daemon = True
    watchdog.start()
    try:
        played = play(env, outcome.attack.calls)
    finally:
        watchdog.cancel()
        outcome.seconds = time.monotonic() - started
    outcome.reward, outcome.outputs, outcome.finished = played.reward, played.outputs, played.finished
    outcome.misbehavior = played.info.get("misbehavior")


def _destroy_machine(env: gym.Env[Any, Any]) -> None:
    bare = env.unwrapped
    episode = bare.episode if isinstance(bare, KarotteEnv) else None
    sandbox = None if episode is None else episode.sandbox
    if sandbox is not None:
        sandbox.close()
