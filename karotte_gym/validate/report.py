"""Findings for people (a table) and for programs (JSON)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from rich.table import Table
from rich.text import Text

from karotte_gym.validate.catalogue import CHECKS
from karotte_gym.validate.finding import Finding, Verdict

__all__ = ["as_json", "as_table", "is_sound", "summary"]

STYLES = {Verdict.OK: "green", Verdict.WARN: "yellow", Verdict.FAIL: "red", Verdict.NOT_CHECKED: "dim"}


def is_sound(findings: Sequence[Finding]) -> bool:
    """Whether nothing failed."""
    return all(finding.verdict is not Verdict.FAIL for finding in findings)


def as_table(task_id: str, findings: Sequence[Finding]) -> Table:
    """Check, verdict, finding, fix; nothing is cut off, and nothing a task printed is taken for markup."""
    table = Table(title=f"{task_id}", show_lines=False)
    for heading in ("check", "verdict", "finding", "fix"):
        table.add_column(heading, overflow="fold", no_wrap=heading in ("check", "verdict"))
    for finding in findings:
        style = STYLES[finding.verdict]
        table.add_row(Text(finding.check), Text(finding.verdict, style), Text(finding.found), Text(finding.fix))
    return table


def as_json(task_id: str, findings: Sequence[Finding]) -> dict[str, Any]:
    """Plain data."""
    return {"task": task_id, "ok": is_sound(findings), "findings": [finding.as_json() for finding in findings]}


def summary(task_id: str, findings: Sequence[Finding]) -> str:
    """One line."""
    counts = Counter(finding.verdict for finding in findings)
    said = ", ".join(f"{counts[verdict]} {verdict}" for verdict in Verdict if counts[verdict])
    left_out = len(CHECKS) - len({finding.check for finding in findings})
    if not is_sound(findings):
        verdict = "NOT SOUND"
    elif left_out:
        verdict = f"nothing wrong so far, {left_out} of {len(CHECKS)} checks left out"
    else:
        verdict = "sound"
    return f"{task_id}: {verdict} ({said})"
