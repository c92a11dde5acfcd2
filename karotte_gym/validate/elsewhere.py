"""Whether a scoring script reads the directory that it is given, and no other.

It is run once with the solution's submission in a directory of another name, where it must score the same, and once
with an empty directory while the solution's files lie where the student wrote them, where it must score nothing.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from karotte_gym.errors import GradingError
from karotte_gym.judges.base import Evidence, Judge
from karotte_gym.judges.executable import ExecutableJudge
from karotte_gym.sandbox.contract import Sandbox, Submission
from karotte_gym.sandbox.submission import send_to
from karotte_gym.scoring import Scoring
from karotte_gym.validate.bench import Bench, parts_of
from karotte_gym.validate.faults import fault_in
from karotte_gym.validate.finding import Finding, fail, not_checked
from karotte_gym.validate.made_up import nothing_of

__all__ = ["check_elsewhere"]

ELSEWHERE, EMPTY, STAGED = "/handed-in/copy", "/handed-in/nothing", "/staged"
FIX = "read below the first argument: os.path.join(sys.argv[1], 'workdir/...')"


def check_elsewhere(bench: Bench) -> Iterator[Finding]:
    """Every scoring script of every step."""
    jobs = [(number, part) for number, step in bench.steps() for part in parts_of(step.judge)]
    scripts = [(number, part) for number, part in jobs if isinstance(part, ExecutableJudge)]
    if bench.live or not scripts:
        yield not_checked("the live machine is graded" if bench.live else "no step has a scoring script")
        return
    for number, judge in scripts:
        submission = bench.reference.evidence[number].submission
        here = bench.judge(judge, number, submission)
        moved, original = (_run(bench, judge, number, submission, place) for place in (ELSEWHERE, ""))
        if here.score - moved.score > max(bench.task_class.score_tolerance, 1e-9):
            why = fault_in(moved.metadata) or moved.metadata.get("reason", "no reason given")
            yield fail(f"{judge.script} scores {moved.score:g} instead of {here.score:g} in another directory: {why}", FIX)
        if original.score > 0:
            yield fail(f"{judge.script} scores {original.score:g} for what lies at the student's path, not in the copy", FIX)


def _run(bench: Bench, judge: ExecutableJudge, step: int, submission: Submission, place: str) -> Scoring:
    """`place` is where the copy lies; "" puts the files where the student wrote them and hands in nothing."""

    def run(evidence: Evidence, part: Judge) -> Scoring:
        assert isinstance(part, ExecutableJudge)
        with evidence.grader_machine() as sandbox:
            if place:
                return part.judge_in(sandbox, evidence, place)
            _put_at_original(sandbox, submission)
            nothing = nothing_of(submission, bench.task_class.steps[step].submission_paths)
            return part.judge_in(sandbox, dataclasses.replace(evidence, submission=nothing), EMPTY)

    return bench.judge(judge, step, submission, run)


def _put_at_original(sandbox: Sandbox, submission: Submission) -> None:
    send_to(sandbox, submission, STAGED)
    done = sandbox.run(["/bin/sh", "-c", f"mkdir -p {STAGED} && cp -r {STAGED}/. / && rm -r {STAGED}"], user="root")
    if done.exit_code != 0:
        raise GradingError(f"the files could not be put where the student wrote them: {done.output[-300:]!r}")
