"""The ends of the scale: the solution earns the maximum, again and from another seed, and nothing earns nothing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from karotte_gym.agents.scripted import Played
from karotte_gym.scoring import Scoring
from karotte_gym.validate.bench import SEED, SUBMIT, Bench
from karotte_gym.validate.faults import fault_in
from karotte_gym.validate.finding import Finding, fail, ok
from karotte_gym.validate.grader_tells import answers_told

__all__ = ["check_nothing_pays", "check_other_seed", "check_same_score", "check_solution_pays"]

FULL = 1.0
GRADINGS = 5
EXACT = 1e-9


def check_solution_pays(bench: Bench) -> Iterator[Finding]:
    """The reference solution's episode ends with the full score, every step of it included."""
    reference = bench.reference
    yield from _full(bench, reference.played, "the solution")
    for number, scoring in enumerate(reference.scorings, 1):
        if scoring.score < FULL - _allowed(bench) and len(bench.task_class.steps) > 1:
            found = f"step {number} of the solution scores {scoring.score:g}: {scoring.metadata.get('reason', '')}"
            yield fail(found, "mend the solution or the judge of that step")


def check_nothing_pays(bench: Bench) -> Iterator[Finding]:
    """Submitting at once earns 0 and is no misbehaviour."""
    played = bench.play([SUBMIT for _ in bench.task_class.steps])
    if played.reward != 0:
        fix = "score what was done and not what was there before: nothing handed in is 0"
        yield fail(f"doing nothing earns {played.reward:g}", fix)
    if blamed := played.info.get("misbehavior"):
        yield fail(f"doing nothing is taken for misbehaviour: {blamed}", "do not put what custody refuses at a submission path")
    said = [step["metadata"] for step in played.info.get("record", {}).get("steps", [])]
    for metadata in said:
        if fault := fault_in(metadata):
            yield fail(f"the grader fails when nothing was handed in: {fault}", "let the script expect that a file is missing")
    yield from answers_told(bench, said)


def check_same_score(bench: Bench) -> Iterator[Finding]:
    """What the solution handed in is graded again and again. Timed tasks say how far scores may lie apart."""
    gradings = 2 if bench.quick else GRADINGS
    if bench.live:
        again = bench.each(lambda _: bench.play(bench.solution).reward, range(gradings - 1))
        yield _spread(bench, [bench.reference.score, *again], "the solution played")
        return
    for number, _ in bench.steps():
        submission = bench.reference.evidence[number].submission
        scorings: Sequence[Scoring] = bench.each(lambda _, n=number, s=submission: bench.grade(n, s), range(gradings))  # type: ignore[misc]
        yield _spread(bench, [scoring.score for scoring in scorings], f"step {number + 1}: the same submission graded")


def check_other_seed(bench: Bench) -> Iterator[Finding]:
    """The solution solves the task, not one draw of its data."""
    yield from _full(bench, bench.play(bench.solution, seed=SEED + 1), "the solution from another seed")


def _full(bench: Bench, played: Played, what: str) -> Iterator[Finding]:
    if not played.finished:
        yield fail(f"{what} does not end the episode", "let solution.json submit every step")
    elif blamed := played.info.get("misbehavior"):
        yield fail(f"{what} is taken for misbehaviour: {blamed}", "mend the solution, or raise the limit that it breaks")
    elif played.reward < FULL - _allowed(bench):
        why = str(played.info.get("scoring", {}).get("reason", ""))
        yield fail(
            f"{what} earns {played.reward:g}, not {FULL:g}{': ' + why if why else ''}", "mend the solution or the grader"
        )


def _spread(bench: Bench, scores: Sequence[float], what: str) -> Finding:
    low, high = min(scores), max(scores)
    if high - low > _allowed(bench):
        fix = "take chance and clock out of the grader; a timed task says by score_tolerance how far honest scores lie apart"
        return fail(f"{what} {len(scores)} times scores from {low:g} to {high:g}", fix)
    spread = "" if high == low else f" to {high:g} (score_tolerance {bench.task_class.score_tolerance:g})"
    return ok(f"{what} {len(scores)} times scores {low:g}{spread}")


def _allowed(bench: Bench) -> float:
    return bench.task_class.score_tolerance or EXACT
