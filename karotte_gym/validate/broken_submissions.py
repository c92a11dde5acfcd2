"""Puts broken submissions before the judge of each step: none may make it fail, and none may score.

No student's machine is needed: what a judge gets is a copy, and a copy can be made up. Each is graded in a grader
machine of its own. Where the student's live machine is graded there is no such copy, so an episode is played for each.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from karotte_gym.judges.combined import AllOf
from karotte_gym.judges.rubric import RubricJudge
from karotte_gym.sandbox.contract import Submission
from karotte_gym.scoring import Scoring
from karotte_gym.validate.bench import Bench, parts_of
from karotte_gym.validate.broken_forms import DIRECTORY, NOISE, QUICK, RIGHT, Rewritten
from karotte_gym.validate.faults import fault_in
from karotte_gym.validate.finding import Finding, fail, not_checked, ok, warn
from karotte_gym.validate.grader_tells import answers_told
from karotte_gym.validate.live_submissions import grade_live
from karotte_gym.validate.made_up import rewritten, same_values, sparse, with_other_types

__all__ = ["check_broken", "check_huge", "check_wrong_forms"]

MIB = 1024 * 1024
EXACT = 1e-9
HUGE_BYTES = 256 * MIB  # what custody lets through by default, and more than a scoring script may use
NO_COPIES = "the student's live machine is graded: no copy can be made up for the judge"
NO_FILES = "no step hands in a file"
ROBUST = "let the grader expect any bytes: read with a bound, catch what parsing raises, score 0 with a reason"


@dataclass(frozen=True, slots=True)
class Case:
    """One made-up submission for one step."""

    step: int
    form: str
    paths: tuple[str, ...]
    submission: Submission

    def named(self, bench: Bench) -> str:
        """For a report: what was broken, and where there is more than one place, where."""
        step, paths = bench.task_class.steps[self.step], ""
        if self.paths != step.submission_paths:
            paths = f" at {', '.join(self.paths)}"
        return f"{self.form}{paths}{f' (step {self.step + 1})' if len(bench.task_class.steps) > 1 else ''}"


def check_broken(bench: Bench) -> Iterator[Finding]:
    """Noise in place of every file, and in place of each alone: no fault, no score."""
    sound = "broken submissions, none earns what the right one does" if bench.live else "broken submissions, none scores"
    yield from _checked(bench, list(_noise(bench)), sound)


def check_huge(bench: Bench) -> Iterator[Finding]:
    """A file as large as custody lets through."""
    if bench.live:
        yield not_checked(NO_COPIES)
        return
    yield from _checked(bench, list(_huge(bench)), "submission as large as custody takes scores 0")


def check_wrong_forms(bench: Bench) -> Iterator[Finding]:
    """The right answer in forms that nobody asked for."""
    cases = [] if bench.live else list(_right(bench))
    if not cases:
        yield not_checked(NO_COPIES if bench.live else NO_FILES)
        return
    forms = {form.name: form for form in RIGHT}
    scored = []
    for case, scoring in _graded(bench, cases):
        if fault := fault_in(scoring.metadata):
            yield fail(f"the grader fails on the right answer as {case.named(bench)}: {fault}", ROBUST)
        elif scoring.score > _free(bench, case, forms[case.form]) and case.form not in bench.task_class.accepted_forms:
            scored.append(case.form)
            fix = f"compare the whole file; if it is meant to pass: accepted_forms = ({case.form!r},)"
            said = warn if forms[case.form].tolerable else fail
            yield said(f"the right answer as {case.named(bench)} scores {scoring.score:g}", fix)
    accepted = f"; accepted: {', '.join(bench.task_class.accepted_forms)}" if bench.task_class.accepted_forms else ""
    if not scored:
        yield ok(f"{len(cases)} wrong forms of the right answer, none scores as it should not{accepted}")


def _free(bench: Bench, case: Case, form: Rewritten) -> float:
    """What that form may earn: nothing, or less than the right answer where it is right in part."""
    return _less_than_right(bench, case.step) if form.partly_right else 0.0


def _checked(bench: Bench, cases: list[Case], sound: str) -> Iterator[Finding]:
    if not cases:
        yield not_checked(NO_FILES)
        return
    wrong, graded = False, _graded(bench, cases)
    for case, scoring in graded:
        allowed = _allowed(bench, case)
        fault = fault_in(scoring.metadata)
        wrong |= fault is not None or scoring.score > allowed
        if fault:
            yield fail(f"the grader fails on {case.named(bench)}: {fault}", ROBUST)
        if scoring.score > allowed:
            yield fail(f"{case.named(bench)} scores {scoring.score:g}", "score nothing but what was asked for")
    yield from answers_told(bench, [scoring.metadata for case, scoring in graded if _all_broken(bench, case)])
    if not wrong:
        yield ok(f"{len(cases)} {sound}")


def _allowed(bench: Bench, case: Case) -> float:
    """Nothing when all is broken; when a part is, or a live machine is right but for the files, less than for the whole."""
    if not bench.live and _all_broken(bench, case):
        return 0.0
    return _less_than_right(bench, case.step)


def _all_broken(bench: Bench, case: Case) -> bool:
    return case.paths == bench.task_class.steps[case.step].submission_paths


def _less_than_right(bench: Bench, step: int) -> float:
    return max(0.0, bench.reference.scorings[step].score - bench.task_class.score_tolerance - EXACT)


def _graded(bench: Bench, cases: list[Case]) -> list[tuple[Case, Scoring]]:
    """What the student said in the solution's episode must not make up for a submission that is broken, nor hide that it
    would score: it stands only where all judges have to be content."""

    def grade(case: Case) -> Scoring:
        if bench.live:
            return grade_live(bench, case.step, case.submission)
        said = {} if isinstance(bench.task_class.steps[case.step].judge, AllOf) else {"messages": ()}
        return bench.grade(case.step, case.submission, **said)

    scorings = bench.each(grade, cases)
    return list(zip(cases, scorings, strict=True))


def _noise(bench: Bench) -> Iterator[Case]:
    for number, paths, into in _places(bench):
        right, limit = bench.reference.evidence[number].submission, _max_bytes(bench)
        few = (
            bench.quick
            or bench.live
            or _asks_a_model(bench, number)
            or paths != bench.task_class.steps[number].submission_paths
        )
        for index, form in enumerate(each for each in NOISE if not few or each.name in QUICK):
            directory = _made(into / f"noise-{index}")
            broken = rewritten(right, paths, lambda _, form=form: form.content, directory, limit)  # type: ignore[misc]
            if broken is not None and not same_values(right, broken):
                yield Case(number, form.name, paths, broken)
        yield Case(number, DIRECTORY, paths, with_other_types(right, paths, _made(into / "types")))


def _right(bench: Bench) -> Iterator[Case]:
    for number, paths, into in _places(bench):
        step = bench.task_class.steps[number]
        if paths != step.submission_paths or (bench.quick and _asks_a_model(bench, number)):
            continue
        right = bench.reference.evidence[number].submission
        seen = set()
        for form in RIGHT:
            broken = rewritten(right, paths, form.make, _made(into / form.name), _max_bytes(bench))
            if broken is not None and broken.sha256 not in seen:
                seen.add(broken.sha256)
                yield Case(number, form.name, paths, broken)


def _huge(bench: Bench) -> Iterator[Case]:
    limits = bench.task_class.submission_limits
    for number, paths, into in _places(bench):
        if paths != bench.task_class.steps[number].submission_paths:
            continue
        right = bench.reference.evidence[number].submission
        size = min(HUGE_BYTES, limits.max_file_bytes, limits.max_total_bytes // len(paths))
        yield Case(number, f"one file of {size // MIB} MiB", paths[:1], sparse(right, paths[:1], size, _made(into / "huge")))


def _places(bench: Bench) -> Iterator[tuple[int, tuple[str, ...], Path]]:
    """For each step all its paths together and, where it has several, each alone; with a directory for copies."""
    for number, step in bench.steps():
        together = [step.submission_paths] if step.submission_paths else []
        alone = [(path,) for path in step.submission_paths] if len(step.submission_paths) > 1 else []
        for paths in [*together, *alone]:
            yield number, paths, bench.directory()


def _asks_a_model(bench: Bench, step: int) -> bool:
    """A judge that costs money and minutes a call gets the few forms that matter most."""
    return any(isinstance(part, RubricJudge) for part in parts_of(bench.task_class.steps[step].judge))


def _max_bytes(bench: Bench) -> int:
    limits = bench.task_class.submission_limits
    return min(limits.max_file_bytes, limits.max_total_bytes)


def _made(directory: Path) -> Path:
    directory.mkdir()
    return directory
