"""`validate`: the checks of a task, one after the other, each a few machines at a time.

A check that raises is a finding: most of the code that runs here is the author's (hooks, judges, tools), and its faults
are what is looked for. Only what says nothing about the task raises through: no disk, no emulator, an interrupt.
"""

from __future__ import annotations

import contextlib
import dataclasses
import traceback
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from karotte_gym.errors import KarotteError
from karotte_gym.task import Task
from karotte_gym.validate.bench import OURS, Bench
from karotte_gym.validate.catalogue import chosen
from karotte_gym.validate.check import Check
from karotte_gym.validate.finding import Finding, Verdict, fail, not_checked, ok

__all__ = ["validate"]

SOLUTION, PAYS = "solution-file", "solution-pays"
PACKAGE = Path(__file__).resolve().parents[1]


def validate(
    task_class: type[Task],
    *,
    only: Sequence[str] = (),
    workers: int = 2,
    quick: bool = False,
    config: Mapping[str, Any] | None = None,
    tell: Callable[[str, str], None] = lambda _check, _what: None,
) -> list[Finding]:
    """Every finding, at least one for each check. The task is sound when none is a FAIL.

    `tell(check, what)` is called when a check begins (with "") and whenever something in it was done.
    """
    current = ""
    with contextlib.closing(
        Bench(task_class, workers=workers, config=config, quick=quick, tell=lambda what: tell(current, what))
    ) as bench:
        findings: list[Finding] = []
        for check in chosen(tuple(only), quick=quick):
            current = check.id
            tell(current, "")
            found = _do(check, bench, findings)
            findings += [dataclasses.replace(finding, check=check.id) for finding in found]
    return findings


def _do(check: Check, bench: Bench, before: Sequence[Finding]) -> list[Finding]:
    """What it found, or `sound`. Without a solution that plays there is nothing to compare with."""
    bad = {finding.check for finding in before if finding.verdict is Verdict.FAIL}
    if check.cost != "read" and SOLUTION in bad:
        return [not_checked("there is no solution that could be played")]
    try:
        if check.cost != "read" and check.id != PAYS and (reason := bench.unplayable()):
            return [not_checked(f"the solution could not be played: {reason}")]
        return list(check.run(bench)) or [ok(check.sound)]
    except OURS:
        raise
    except Exception as error:
        return [_raised(error)]


def _raised(error: Exception) -> Finding:
    """In one line, with the author's own last line of code where there is one."""
    if isinstance(error, KarotteError):
        return fail(f"{type(error).__name__}: {error}", "mend what it names")
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if PACKAGE not in Path(frame.filename).parents]
    where = f" ({Path(frames[-1].filename).name}:{frames[-1].lineno})" if frames else ""
    return fail(f"raised {type(error).__name__}: {error}{where}", "mend the task's code there")
