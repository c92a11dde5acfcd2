"""Outcomes for people (a table), for programs (JSON) and for CI (JUnit XML)."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Sequence
from typing import Any

from rich.table import Table
from rich.text import Text

from karotte_gym.redteam.verdict import Outcome

__all__ = ["as_json", "as_junit", "as_table"]


def as_table(outcomes: Sequence[Outcome]) -> Table:
    """Attack, expected, reward, reason, seconds; failures in red below their attack."""
    table = Table(title="Red team")
    for heading in ("attack", "expected", "reward", "reason", "seconds"):
        table.add_column(heading, overflow="fold")  # a name that is cut can't be looked up
    for outcome in outcomes:
        style = "red" if outcome.failures else ""
        reason = outcome.misbehavior or ""
        table.add_row(
            Text(outcome.attack.name, style),
            f"{outcome.attack.expect.reward:g}",
            Text(f"{outcome.reward:g}", style),
            Text("\n".join([reason, *outcome.failures]).strip(), style),
            f"{outcome.seconds:.1f}",
        )
    return table


def as_json(outcomes: Sequence[Outcome]) -> list[dict[str, Any]]:
    """Plain data, one object an attack."""
    return [
        {
            "attack": outcome.attack.name,
            "area": outcome.attack.area,
            "expected": outcome.attack.expect.reward,
            "reward": outcome.reward,
            "reason": outcome.misbehavior,
            "seconds": round(outcome.seconds, 2),
            "honest_reward": outcome.honest_reward,
            "failures": outcome.failures,
        }
        for outcome in outcomes
    ]


def as_junit(task_id: str, outcomes: Sequence[Outcome]) -> bytes:
    """JUnit XML; what XML can't hold (control characters of an output) is replaced."""
    failed = sum(bool(outcome.failures) for outcome in outcomes)
    suite = ET.Element("testsuite", name=f"redteam {task_id}", tests=str(len(outcomes)), failures=str(failed))
    for outcome in outcomes:
        name, area, seconds = outcome.attack.name, outcome.attack.area or "attacks", f"{outcome.seconds:.2f}"
        case = ET.SubElement(suite, "testcase", name=_xml(name), classname=_xml(area), time=seconds)
        if outcome.failures:
            failure = ET.SubElement(case, "failure", message=_xml(outcome.failures[0]))
            failure.text = _xml("\n".join(outcome.failures))
    return ET.tostring(suite, encoding="utf-8", xml_declaration=True)


def _xml(text: str) -> str:
    return "".join(c if c in "\t\n" or " " <= c <= "\ud7ff" or "\ue000" <= c <= "\ufffd" else "\ufffd" for c in text)
