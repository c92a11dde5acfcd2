"""Whether an attack ended as it must; every way to fail is named."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from karotte_gym.redteam.pack import Attack, Expectation

__all__ = ["Outcome", "verdict_on"]

TOLERANCE = 1e-9


@dataclass
class Outcome:
    """What an attack came to. `failures` is empty when that is right."""

    attack: Attack
    reward: float = 0.0
    misbehavior: str | None = None
    outputs: list[str] = field(default_factory=list)
    seconds: float = 0.0
    finished: bool = False
    honest_reward: float | None = None  # of the honest episode after it; None when it was not played
    error: str | None = None  # a fault, which is never what an attack may come to
    failures: list[str] = field(default_factory=list)


def verdict_on(outcome: Outcome, full_reward: float = 1.0, tolerance: float = TOLERANCE) -> list[str]:
    """The sentences that say what is wrong, [] when nothing is. `tolerance`: what an honest score may spread by."""
    expect = outcome.attack.expect
    wrong = [] if outcome.error is None else [f"raised: {outcome.error}"]
    if outcome.error is None and not outcome.finished:
        wrong.append("the episode did not end")
    allowed = tolerance if expect.reward > 0 else TOLERANCE
    if abs(outcome.reward - expect.reward) > allowed:
        wrong.append(f"earned {outcome.reward:g}, must earn {expect.reward:g}")
    wrong += _about_blame(outcome, expect) if outcome.error is None else []
    wrong += _about_outputs(outcome.outputs, expect)
    if outcome.seconds > expect.max_seconds:
        wrong.append(f"took {outcome.seconds:.1f} s, may take {expect.max_seconds:g} s")
    if outcome.honest_reward is not None and abs(outcome.honest_reward - full_reward) > tolerance:
        wrong.append(f"an honest episode after it earned {outcome.honest_reward:g} instead of {full_reward:g}")
    return wrong


def _about_blame(outcome: Outcome, expect: Expectation) -> list[str]:
    pattern, reason = expect.misbehavior, outcome.misbehavior
    if pattern == ".*":
        return []
    if pattern is None:
        return [] if reason is None else [f"was blamed, though legal: {reason}"]
    if reason is None:
        return ["was not blamed"]
    if pattern != "*" and not re.search(pattern, reason, re.IGNORECASE | re.DOTALL):
        return [f"was blamed for another reason than /{pattern}/: {reason}"]
    return []


def _about_outputs(outputs: list[str], expect: Expectation) -> list[str]:
    wrong = [
        f"output of call {index} holds a protected string ({len(text)} characters)"
        for text in expect.never_in_output
        for index, output in enumerate(outputs)
        if text in output
    ]
    for index, pattern in expect.output_matches.items():
        if index >= len(outputs) or not re.search(pattern, outputs[index], re.DOTALL):
            seen = outputs[index][:200] if index < len(outputs) else "(no such call)"
            wrong.append(f"output of call {index} does not match /{pattern}/: {seen!r}")
    return wrong
