"""What a check says: a verdict, what it saw, and what to do about it."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from enum import StrEnum

__all__ = ["Finding", "Verdict", "fail", "not_checked", "ok", "warn"]

MAX_CHARS = 600  # of one cell: what a scoring script printed is the author's to look up, not ours to repeat in full


class Verdict(StrEnum):
    """The order of badness; only FAIL makes a task unsound."""

    OK = "ok"
    NOT_CHECKED = "not checked"
    WARN = "warn"
    FAIL = "FAIL"


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of the table. `check` is the id of the check, "" until the run fills it in."""

    verdict: Verdict
    found: str
    fix: str = ""
    check: str = ""

    def as_json(self) -> dict[str, str]:
        """Plain data."""
        return {name: str(value) for name, value in asdict(self).items()}


def ok(found: str) -> Finding:
    """Nothing to do; `found` says what was seen."""
    return Finding(Verdict.OK, harmless(found))


def warn(found: str, fix: str) -> Finding:
    """May be meant so."""
    return Finding(Verdict.WARN, harmless(found), fix)


def fail(found: str, fix: str) -> Finding:
    """The task must not be trained on before this is mended."""
    return Finding(Verdict.FAIL, harmless(found), fix)


def not_checked(found: str, fix: str = "") -> Finding:
    """Says why, so that nobody takes silence for soundness."""
    return Finding(Verdict.NOT_CHECKED, harmless(found), fix)


def harmless(text: str) -> str:
    """Printable, bounded: some of it came out of a machine or out of a scoring script."""
    shown = "".join(letter if letter.isprintable() or letter == "\n" else "\ufffd" for letter in text)
    return shown if len(shown) <= MAX_CHARS else f"{shown[:MAX_CHARS]}..."
