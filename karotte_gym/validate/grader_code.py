"""The grading code, read: where it looks, how much it reads, and whether it runs what was handed in.

Scoring scripts are read whole, of the file of a `FunctionJudge` the function and what it calls.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from karotte_gym.errors import ConfigError
from karotte_gym.judges.executable import ExecutableJudge
from karotte_gym.judges.function import FunctionJudge
from karotte_gym.judges.function_reference import FunctionReference
from karotte_gym.judges.grading_code import read_script
from karotte_gym.validate.bench import Bench, parts_of
from karotte_gym.validate.finding import Finding, fail, not_checked, warn
from karotte_gym.validate.script_flaw import NAMED_PATH, ORIGINAL_PATH, PATTERN, RUNS, UNBOUNDED, UNBOUNDED_LINE, Flaw
from karotte_gym.validate.script_rules import read

__all__ = ["Code", "check_bounds", "check_execution", "check_original_path", "code_of", "scripts_of"]


@dataclass(frozen=True, slots=True)
class Code:
    """A scoring script, or the file in which a judge's function `judged` stands."""

    path: Path
    judged: str | None = None


def code_of(bench: Bench) -> list[Code]:
    """All of the task that can be read, each once."""
    found = []
    for part in (part for step in bench.task_class.steps for part in parts_of(step.judge)):
        if isinstance(part, ExecutableJudge):
            found.append(Code(bench.folder / part.script))
        elif isinstance(part, FunctionJudge):
            reference = FunctionReference.of(part.function)
            found.append(Code(Path(reference.file), reference.name))
    return list(dict.fromkeys(found))


def scripts_of(bench: Bench) -> list[Path]:
    """Every scoring script of the task, each once."""
    return [code.path for code in code_of(bench) if code.judged is None]


def check_original_path(bench: Bench) -> Iterator[Finding]:
    """Nothing is opened at /workdir: where the live machine is graded a script may look at it, but not for the copy.

    Nor at a path that the submission names, which would be that of the answer.
    """
    copy = "os.path.join(SUBMISSION_DIR, 'workdir/...'), SUBMISSION_DIR being the first argument"

    def say(code: Code, where: str, flaw: Flaw) -> Finding:
        if flaw.kind == NAMED_PATH:
            return fail(f"{where} opens a path that the submission names: {flaw.what}", "open none but names of your own")
        said = warn if bench.live and code.judged is None else fail
        fix = f"read the copy: {copy if code.judged is None else 'by the methods of the first argument'}"
        return said(f"{where} opens {flaw.what}, the student's own path", fix)

    yield from _look(bench, (ORIGINAL_PATH, NAMED_PATH), say)


def check_bounds(bench: Bench) -> Iterator[Finding]:
    """No more of a submission is read than a right one can have."""
    enough = "give read() the size that a right answer can have and one byte more, or look at the size of the file first"
    fix = f"read it by karotte_grading.read_submitted, {enough}"

    def say(_: Code, where: str, flaw: Flaw) -> Finding:
        if flaw.kind == UNBOUNDED_LINE:
            return warn(f"{where} reads lines of any length from {flaw.what}", fix)
        return fail(f"{where} reads without a bound: {flaw.what}", fix)

    yield from _look(bench, (UNBOUNDED, UNBOUNDED_LINE), say)


def check_execution(bench: Bench) -> Iterator[Finding]:
    """Nothing of the submission's is evaluated, loaded or started by the grading code itself."""
    by_student = "and run code in a scoring script, by karotte_grading.run_as_student only"

    def say(code: Code, where: str, flaw: Flaw) -> Finding:
        if flaw.kind == PATTERN:
            fix = "match by a pattern of your own, unless a pattern is what the task asks for"
            return warn(f"{where} matches by a pattern that was handed in, and '.*' matches everything: {flaw.what}", fix)
        as_whom = "as root" if code.judged is None else "on this host"
        return fail(
            f"{where} {flaw.does}, {as_whom}: {flaw.what}",
            f"compare text, parse with json or ast.literal_eval, {by_student}",
        )

    yield from _look(bench, (RUNS, PATTERN), say)


def _look(bench: Bench, kinds: tuple[str, ...], say: Callable[[Code, str, Flaw], Finding]) -> Iterator[Finding]:
    codes = code_of(bench)
    if not codes:
        yield not_checked("no step has a scoring script or function that could be read")
    for code in codes:
        try:
            reading = read(read_script(code.path), code.judged)
        except (ConfigError, RecursionError) as error:
            yield fail(f"{code.path.name} can't be read: {error}", "mend the script")
            continue
        yield from (say(code, f"{code.path.name}:{flaw.line}", flaw) for flaw in reading.flaws if flaw.kind in kinds)
        if not reading.sees_submission and not reading.flaws:
            fix = "name it where it comes in: submission_dir, root_data_dir, result_path = sys.argv[1:]"
            yield not_checked(f"{code.path.name}: can't see where it takes the submission from", fix)
