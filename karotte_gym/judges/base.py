"""`Judge`: who turns a submission into a `Scoring`. Judges run on the host; what they execute, in a grader machine.

Promises of every judge:

- `judge` returns a `Scoring` for whatever the student handed in: nothing that a submission contains may raise, hang or
  be executed on the host.
- `GradingError` (or another `KarotteError`) when grading failed for a reason that no submission can cause.
- It reads the submission from the copies in custody, never from the student's machine, which may be gone.
"""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from karotte_gym.config import Hardware
from karotte_gym.sandbox.contract import MachineSpec, Sandbox, Submission
from karotte_gym.scoring import Scoring
from karotte_gym.store import ProtectedStore

__all__ = ["Evidence", "GraderNeeds", "Judge"]


@dataclass(frozen=True, slots=True)
class GraderNeeds:
    """What a judge may use of a task when it says which machine it needs."""

    folder: Path
    hardware: Hardware
    drive: tuple[tuple[str, str], ...]
    containerfile: str | None = None  # of the environment's own grader image

    @property
    def root_data(self) -> str:
        """Host path of the task's ``root_data/``, "" when it has none."""
        return dict(self.drive).get("root_data", "")


@dataclass(frozen=True, slots=True)
class Evidence:
    """What a judge gets.

    `grader_machine()` opens a fresh machine of the judge's own kind; each use of it is a machine of its own. `messages`
    is the chat of this step of the task (OpenAI format, no system prompt), `store` what hooks and tools have kept for
    this episode out of the student's reach. `machine_for` is for judges that are made of others.
    """

    submission: Submission
    grader_machine: Callable[[], AbstractContextManager[Sandbox]]
    grading_data: Mapping[str, bytes] = field(default_factory=dict)
    messages: tuple[dict[str, Any], ...] = ()
    store: ProtectedStore = field(default_factory=ProtectedStore)
    seed: int | None = None
    root_data: str = ""  # host path of the task's root_data/, "" when it has none
    machine_for: Callable[[Judge], AbstractContextManager[Sandbox]] | None = None

    def for_judge(self, judge: Judge) -> Evidence:
        """The same evidence with the kind of grader machine that `judge` needs, where there are several kinds."""
        if self.machine_for is None:
            return self
        return dataclasses.replace(self, grader_machine=partial(self.machine_for, judge))


class Judge(ABC):
    """See the module's text for what is promised. ``a & b`` is the lower score of both, ``a | b`` the higher one."""

    @property
    def grader_memory_bytes(self) -> int:
        """What it lets a program in a machine use, which must have as much; 0: it runs none."""
        return 0

    def machine(self, needs: GraderNeeds) -> MachineSpec | None:  # noqa: ARG002 - most judges need none
        """The machine to start while the student works; None when the judge needs none."""
        return None

    def machines(self, needs: GraderNeeds) -> tuple[MachineSpec, ...]:
        """Every kind of machine that it may ask for, the one to start early first."""
        spec = self.machine(needs)
        return () if spec is None else (spec,)

    def criterion(self, needs: GraderNeeds) -> dict[str, str]:  # noqa: ARG002
        """For the record: the judge's class, and digests of its code and data where there are any."""
        return {"judge": type(self).__name__}

    @abstractmethod
    def judge(self, evidence: Evidence) -> Scoring:
        """Score the submission."""

    def __and__(self, other: object) -> Judge:
        from karotte_gym.judges.combined import AllOf  # here, since a combination is a judge itself

        return AllOf((self, other)) if isinstance(other, Judge) else NotImplemented

    def __or__(self, other: object) -> Judge:
        from karotte_gym.judges.combined import AnyOf

        return AnyOf((self, other)) if isinstance(other, Judge) else NotImplemented
