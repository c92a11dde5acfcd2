"""`Judge`: who turns a submission into a `Scoring`. Judges run on the host; what they execute, in a grader machine.

Promises of every judge:

- `judge` returns a `Scoring` for whatever the student handed in: nothing that a submission contains may raise, hang or
  be executed on the host.
- `GradingError` (or another `KarotteError`) when grading failed for a reason that no submission can cause.
- It reads the submission from the copies in custody, never from the student's machine, which may be gone.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from karotte_gym.config import Hardware
from karotte_gym.sandbox.contract import MachineSpec, Sandbox, Submission
from karotte_gym.scoring import Scoring

__all__ = ["Evidence", "GraderNeeds", "Judge"]


@dataclass(frozen=True, slots=True)
class GraderNeeds:
    """What a judge may use of a task when it says which machine it needs."""

    folder: Path
    hardware: Hardware
    drive: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Evidence:
    """What a judge gets. `grader_machine()` opens a fresh machine; each use of it is a machine of its own."""

    submission: Submission
    grader_machine: Callable[[], AbstractContextManager[Sandbox]]
    grading_data: Mapping[str, bytes] = field(default_factory=dict)
    messages: tuple[dict[str, Any], ...] = ()


class Judge(ABC):
    """See the module's text for what is promised."""

    def machine(self, needs: GraderNeeds) -> MachineSpec | None:  # noqa: ARG002 - most judges need none
        """The machine to start while the student works; None when the judge needs none."""
        return None

    def criterion(self, needs: GraderNeeds) -> dict[str, str]:  # noqa: ARG002
        """For the record: the judge's class, and digests of its code and data where there are any."""
        return {"judge": type(self).__name__}

    @abstractmethod
    def judge(self, evidence: Evidence) -> Scoring:
        """Score the submission."""
