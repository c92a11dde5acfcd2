"""``a & b`` is the lowest score, ``a | b`` the highest; notes of all, a machine of each one's own kind."""

# ruff: noqa: ARG002 - judges that look at nothing
from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from karotte_gym import AllOf, AlwaysPassJudge, AnyOf, ConfigError, Evidence, GradingError, Judge, RegexJudge, Scoring
from karotte_gym.judges import GraderNeeds
from karotte_gym.sandbox.contract import MachineSpec, Sandbox
from karotte_gym.scoring import MAX_METADATA_BYTES, MAX_METADATA_DEPTH
from tests.unit.judges.evidence import NEEDS, evidence_of


@dataclass(frozen=True)
class Fixed(Judge):
    score: float
    metadata: Any = None
    stop_task: bool = False

    def judge(self, evidence: Evidence) -> Scoring:
        return Scoring(self.score, self.metadata, self.stop_task)


class Failing(Judge):
    def judge(self, evidence: Evidence) -> Scoring:
        raise GradingError("the provider is down")


@dataclass(frozen=True)
class InMachine(Judge):
    """Asks for a machine of the given size and says which it got."""

    memory_mib: int

    def machine(self, needs: GraderNeeds) -> MachineSpec:
        return MachineSpec(role="grader", hardware=needs.hardware.model_copy(update={"memory_mib": self.memory_mib}))

    def judge(self, evidence: Evidence) -> Scoring:
        with evidence.grader_machine() as machine:
            return Scoring(1.0, {"got": machine})


@pytest.mark.parametrize(
    ("judge", "score"),
    [
        (Fixed(0.2) & Fixed(0.7), 0.2),
        (Fixed(0.2) | Fixed(0.7), 0.7),
        (Fixed(1.0) & Fixed(1.0) & Fixed(0.0), 0.0),
        (Fixed(0.0) | Fixed(0.0) | Fixed(1.0), 1.0),
        ((Fixed(0.2) | Fixed(0.9)) & Fixed(0.5), 0.5),
        (Fixed(0.2) & Fixed(0.9) | Fixed(0.5), 0.5),
    ],
)
def test_all_is_the_minimum_and_any_the_maximum(tmp_path: Path, judge: Judge, score: float) -> None:
    assert judge.judge(evidence_of(tmp_path)).score == score


def test_the_notes_of_all_stand_under_their_names(tmp_path: Path) -> None:
    scoring = (Fixed(1.0, {"a": 1}) & Fixed(0.5, {"b": 2}) & AlwaysPassJudge()).judge(evidence_of(tmp_path))
    assert scoring.metadata == {
        "Fixed": {"score": 1.0, "metadata": {"a": 1}},
        "Fixed-2": {"score": 0.5, "metadata": {"b": 2}},
        "AlwaysPassJudge": {"score": 1.0, "metadata": {}},
    }


def test_notes_that_are_too_long_together_cost_no_score(tmp_path: Path) -> None:
    long = {"x": "y" * (MAX_METADATA_BYTES - 100)}
    assert Scoring(1.0, long), "each alone is kept"
    scoring = (Fixed(1.0, long) & Fixed(1.0, {"short": 1}) & Fixed(0.5, long)).judge(evidence_of(tmp_path))
    assert scoring.score == 0.5
    assert [notes["score"] for notes in scoring.metadata.values()] == [1.0, 1.0, 0.5]
    assert scoring.metadata["Fixed-2"]["metadata"] == {"short": 1}
    assert "left_out" in scoring.metadata["Fixed"]["metadata"]


def test_notes_that_are_nested_deep_cost_the_notes_and_not_the_score(tmp_path: Path) -> None:
    deep: dict[str, Any] = {}
    for _ in range(MAX_METADATA_DEPTH - 1):
        deep = {"x": deep}
    scoring = ((Fixed(1.0, deep) & Fixed(0.5, {"short": 1})) | Fixed(0.2)).judge(evidence_of(tmp_path))
    notes = scoring.metadata["AllOf"]["metadata"]
    assert scoring.score == 0.5
    assert "left_out" in notes["Fixed"]["metadata"] and notes["Fixed-2"]["metadata"] == {"short": 1}


def test_any_of_them_may_stop_the_task(tmp_path: Path) -> None:
    evidence = evidence_of(tmp_path)
    assert (Fixed(1.0) & Fixed(1.0, stop_task=True)).judge(evidence).stop_task
    assert (Fixed(1.0, stop_task=True) | Fixed(0.0)).judge(evidence).stop_task
    assert not (Fixed(1.0) & Fixed(1.0)).judge(evidence).stop_task


@pytest.mark.parametrize("judge", [Fixed(0.0) & Failing(), Fixed(1.0) | Failing(), Failing() & Fixed(0.0)])
def test_a_failure_of_one_is_no_score_of_the_others(tmp_path: Path, judge: Judge) -> None:
    with pytest.raises(GradingError, match="the provider is down"):
        judge.judge(evidence_of(tmp_path))


def test_each_gets_a_machine_of_its_own_kind(tmp_path: Path) -> None:
    opened: list[MachineSpec | None] = []

    @contextlib.contextmanager
    def machine_for(judge: Judge) -> Iterator[Any]:
        spec = judge.machine(NEEDS)
        opened.append(spec)
        assert spec is not None
        yield spec.hardware.memory_mib

    judge = InMachine(300) & (Fixed(1.0) | InMachine(400)) & InMachine(300)
    evidence = evidence_of(tmp_path, grader_machine=lambda: machine_for(judge), machine_for=machine_for)
    scoring = judge.judge(evidence)
    assert scoring.metadata["InMachine"]["metadata"] == {"got": 300}
    assert scoring.metadata["AnyOf"]["metadata"]["InMachine"]["metadata"] == {"got": 400}
    assert [spec.hardware.memory_mib for spec in opened if spec] == [300, 400, 300]
    assert [spec.hardware.memory_mib for spec in judge.machines(NEEDS)] == [300, 400], "to be prepared, each kind once"
    assert judge.machine(NEEDS) == InMachine(300).machine(NEEDS), "to be started early"


def test_one_machine_for_all_stays_one_machine(tmp_path: Path) -> None:
    @contextlib.contextmanager
    def the_live_one() -> Iterator[Any]:
        yield "live"

    scoring = (InMachine(300) & InMachine(400)).judge(evidence_of(tmp_path, grader_machine=the_live_one))
    assert [notes["metadata"]["got"] for notes in scoring.metadata.values()] == ["live", "live"]


def test_judges_without_a_machine_need_none_together() -> None:
    judge = RegexJudge("x") & AlwaysPassJudge()
    assert judge.machine(NEEDS) is None and judge.machines(NEEDS) == ()


def test_the_record_names_the_criterion_of_each() -> None:
    assert (RegexJudge("x") & AlwaysPassJudge()).criterion(NEEDS) == {
        "judge": "AllOf",
        "1.judge": "RegexJudge",
        "1.pattern": "x",
        "1.where": "messages",
        "1.max_bytes": "1048576",
        "2.judge": "AlwaysPassJudge",
    }


@pytest.mark.parametrize("judges", [(), [AlwaysPassJudge()], (AlwaysPassJudge(), "x"), AlwaysPassJudge()])
@pytest.mark.parametrize("kind", [AllOf, AnyOf])
def test_a_mistake_is_found_when_it_is_made(kind: Any, judges: Any) -> None:
    with pytest.raises(ConfigError):
        kind(judges)


@pytest.mark.parametrize("other", [1, None, Sandbox])
def test_a_judge_combines_with_judges_only(other: Any) -> None:
    with pytest.raises(TypeError):
        AlwaysPassJudge() & other
    with pytest.raises(TypeError):
        AlwaysPassJudge() | other
