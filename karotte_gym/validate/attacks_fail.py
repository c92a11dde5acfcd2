"""Whether cheats pay: the task's own `attacks/` and the pack that ships, played in real machines."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from karotte_gym.redteam.pack import Attack, generic_pack, own_attacks
from karotte_gym.redteam.runner import run_attacks
from karotte_gym.validate.bench import Bench
from karotte_gym.validate.finding import Finding, fail, not_checked, ok
from karotte_gym.validate.workers import fitting_workers

__all__ = ["check_generic_attacks", "check_own_attacks"]


def check_own_attacks(bench: Bench) -> Iterator[Finding]:
    """Every attack of the task's own earns 0 and brings no string of root_data to light."""
    attacks = own_attacks(bench.task_class)
    if not attacks:
        yield not_checked("the task has no attacks of its own")
        return
    yield from _play(bench, attacks, "attacks/{}.json", "make the grader refuse it; see docs/validation.md")


def check_generic_attacks(bench: Bench) -> Iterator[Finding]:
    """So does the pack, and what in it is legal still earns the full score."""
    fix = "play it alone: karotte-gym redteam {} --only {}"
    yield from _play(bench, generic_pack(), "{}", fix)


def _play(bench: Bench, attacks: Sequence[Attack], name: str, fix: str) -> Iterator[Finding]:
    outcomes = run_attacks(
        bench.task_class.id,
        attacks,
        parallel=fitting_workers(bench.task_class, bench.workers),
        env_kwargs={"task_config": bench.config} if bench.config else {},
        honest_after=False,
        on_outcome=lambda outcome: bench.tell(outcome.attack.name),
    )
    for outcome in outcomes:
        if outcome.failures:
            found = f"{name.format(outcome.attack.name)}: {'; '.join(outcome.failures)}"
            yield fail(found, fix.format(bench.task_class.id, outcome.attack.name))
    if not any(outcome.failures for outcome in outcomes):
        yield ok(f"{len(outcomes)} attacks, none pays")
