"""`AllOf` and `AnyOf`: several judges of one submission, written ``a & b`` and ``a | b``.

All of them judge, also when the first has settled the score: a record with half of its evidence missing can't be
compared with another. One that raises raises through, for a score without it would be a guess.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from karotte_gym.errors import ConfigError
from karotte_gym.judges.base import Evidence, GraderNeeds, Judge
from karotte_gym.judges.notes import fitting
from karotte_gym.sandbox.contract import MachineSpec
from karotte_gym.scoring import Scoring

__all__ = ["AllOf", "AnyOf"]


@dataclass(frozen=True)
class _Combined(Judge):
    """Judges in the order in which they are asked. A combination of the same kind inside another is taken apart."""

    judges: tuple[Judge, ...]

    def __post_init__(self) -> None:
        if not isinstance(self.judges, tuple) or not all(isinstance(judge, Judge) for judge in self.judges):
            raise ConfigError(f"{type(self).__name__} takes a tuple of judges: {type(self).__name__}((a, b))")
        if not self.judges:
            raise ConfigError(f"{type(self).__name__} of no judge would score anything; give it one")
        object.__setattr__(self, "judges", tuple(self._flat()))

    def _flat(self) -> Iterator[Judge]:
        for judge in self.judges:
            if isinstance(judge, type(self)):
                yield from judge.judges
            else:
                yield judge

    @property
    def grader_memory_bytes(self) -> int:
        """The most of any."""
        return max(judge.grader_memory_bytes for judge in self.judges)

    def machine(self, needs: GraderNeeds) -> MachineSpec | None:
        """The first one that any of the judges needs."""
        return next(iter(self.machines(needs)), None)

    def machines(self, needs: GraderNeeds) -> tuple[MachineSpec, ...]:
        """Those of all judges, each kind once."""
        return tuple(dict.fromkeys(spec for judge in self.judges for spec in judge.machines(needs)))

    def criterion(self, needs: GraderNeeds) -> dict[str, str]:
        """Each judge's own, numbered from 1."""
        found = {"judge": type(self).__name__}
        for number, judge in enumerate(self.judges, 1):
            found |= {f"{number}.{key}": value for key, value in judge.criterion(needs).items()}
        return found

    def judge(self, evidence: Evidence) -> Scoring:
        """One score of all, with each judge's notes under its name. Any of them may stop the task."""
        scorings = [judge.judge(evidence.for_judge(judge)) for judge in self.judges]
        notes = {
            name: {"score": scoring.score, "metadata": scoring.metadata}
            for name, scoring in zip(self._names(), scorings, strict=True)
        }
        stop_task = any(scoring.stop_task for scoring in scorings)
        return Scoring(self._one([scoring.score for scoring in scorings]), fitting(notes), stop_task)

    def _names(self) -> list[str]:
        """Class names, the second of a kind with its number."""
        names: list[str] = []
        for judge in self.judges:
            name = type(judge).__name__
            before = sum(type(other) is type(judge) for other in self.judges[: len(names)])
            names.append(name if before == 0 else f"{name}-{before + 1}")
        return names

    @abstractmethod
    def _one(self, scores: Sequence[float]) -> float:
        """The score of the whole."""


class AllOf(_Combined):
    """The lowest score: full marks only when every judge gives them."""

    def _one(self, scores: Sequence[float]) -> float:
        return min(scores)


class AnyOf(_Combined):
    """The highest score. A student looks for the weakest of them, so each has to be sound alone."""

    def _one(self, scores: Sequence[float]) -> float:
        return max(scores)
