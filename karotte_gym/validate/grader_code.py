"""The scoring scripts, read: where they look, how much they read, and whether they run what was handed in."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from karotte_gym.errors import ConfigError
from karotte_gym.judges.executable import ExecutableJudge
from karotte_gym.judges.grading_code import read_script
from karotte_gym.validate.bench import Bench, parts_of
from karotte_gym.validate.finding import Finding, fail, not_checked, warn
from karotte_gym.validate.script_rules import ORIGINAL_PATH, RUNS, UNBOUNDED, UNBOUNDED_LINE, Flaw, flaws_of

__all__ = ["check_bounds", "check_execution", "check_original_path", "scripts_of"]


def scripts_of(bench: Bench) -> list[Path]:
    """Every scoring script of the task, each once."""
    parts = (part for step in bench.task_class.steps for part in parts_of(step.judge))
    return list(dict.fromkeys(bench.folder / part.script for part in parts if isinstance(part, ExecutableJudge)))


def check_original_path(bench: Bench) -> Iterator[Finding]:
    """Scripts open nothing at /workdir. Where the live machine is graded they may look at it, but not for the copy."""
    fix = "read the copy: os.path.join(SUBMISSION_DIR, 'workdir/...'), SUBMISSION_DIR being the first argument"
    said = warn if bench.live else fail

    def say(where: str, flaw: Flaw) -> Finding:
        return said(f"{where} opens {flaw.what}, the student's own path", fix)

    yield from _look(bench, (ORIGINAL_PATH,), say)


def check_bounds(bench: Bench) -> Iterator[Finding]:
    """Scripts read no more of a submission than a right one can have."""
    enough = "give read() the size that a right answer can have and one byte more, or look at the size of the file first"
    fix = f"read it by karotte_grading.read_submitted, {enough}"

    def said(where: str, flaw: Flaw) -> Finding:
        if flaw.kind == UNBOUNDED_LINE:
            return warn(f"{where} reads lines of any length from {flaw.what}", fix)
        return fail(f"{where} reads without a bound: {flaw.what}", fix)

    yield from _look(bench, (UNBOUNDED, UNBOUNDED_LINE), said)


def check_execution(bench: Bench) -> Iterator[Finding]:
    """Scripts evaluate, load and start nothing of the submission's themselves."""
    fix = "compare text, parse with json or ast.literal_eval, and run code by karotte_grading.run_as_student only"
    yield from _look(bench, (RUNS,), lambda where, flaw: fail(f"{where} runs what was handed in, as root: {flaw.what}", fix))


def _look(bench: Bench, kinds: tuple[str, ...], said: Callable[[str, Flaw], Finding]) -> Iterator[Finding]:
    scripts = scripts_of(bench)
    if not scripts:
        yield not_checked("no step has a scoring script that could be read")
    for script in scripts:
        try:
            flaws = flaws_of(read_script(script))
        except (ConfigError, RecursionError) as error:
            yield fail(f"{script.name} can't be read: {error}", "mend the script")
            continue
        yield from (said(f"{script.name}:{flaw.line}", flaw) for flaw in flaws if flaw.kind in kinds)
