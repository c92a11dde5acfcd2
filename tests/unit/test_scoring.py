"""A score is a finite number from 0 to 1, whatever a judge or its script says."""

import pickle
from typing import Any

import pytest
from pydantic import ValidationError

from karotte_gym.errors import ConfigError
from karotte_gym.judges.executable import ExecutableJudge, read_result
from karotte_gym.sandbox.contract import CommandResult
from karotte_gym.scoring import MisbehaviorKind, Scoring, StudentMisbehavior

FINE = CommandResult(output=b"", exit_code=0, timed_out=False, cut_bytes=0, duration_s=0.1)


@pytest.mark.parametrize("score", [0, 1, 0.0, 0.25, 1.0])
def test_numbers_from_0_to_1_are_scores(score: float) -> None:
    assert Scoring(score).score == float(score)
    assert isinstance(Scoring(score).score, float)


@pytest.mark.parametrize(
    "score", [True, False, None, "1", "0.5", [1], {}, float("nan"), float("inf"), -float("inf"), -0.1, 1.0001, 10**400]
)
def test_nothing_else_is(score: Any) -> None:
    with pytest.raises(ValidationError):
        Scoring(score)


def nested(depth: int) -> dict[str, Any]:
    value: dict[str, Any] = {}
    for _ in range(depth - 1):
        value = {"x": [value]} if depth > 100 else {"x": value}
    return value


def test_metadata_may_be_nested_a_little() -> None:
    assert Scoring(1.0, nested(32)).metadata == nested(32)


@pytest.mark.parametrize(
    "metadata", [{"x": object()}, {"x": float("nan")}, {"x": "y" * 100_000}, ["x"], nested(33), nested(900)]
)
def test_metadata_is_bounded_json(metadata: Any) -> None:
    with pytest.raises(ValidationError):
        Scoring(1.0, metadata)


def test_misbehavior_survives_the_way_between_processes() -> None:
    there = StudentMisbehavior("custody", "a link at /workdir/x")
    back = pickle.loads(pickle.dumps(there))
    assert (back.kind, back.sentence, str(back)) == (MisbehaviorKind.CUSTODY, there.sentence, there.sentence)


def test_an_unknown_kind_of_misbehavior_is_a_mistake_of_ours() -> None:
    with pytest.raises(ValueError, match="weather"):
        StudentMisbehavior("weather", "it rained")


def test_a_good_result_is_believed() -> None:
    scoring = read_result(FINE, b'{"score": 0.5, "metadata": {"note": "half"}}')
    assert scoring == Scoring(0.5, {"note": "half"})


@pytest.mark.parametrize(
    "result",
    [
        b"",
        b"1.0",
        b"[1.0]",
        b"{}",
        b'{"score": "1.0"}',
        b'{"score": true}',
        b'{"score": [1]}',
        b'{"score": NaN}',
        b'{"score": Infinity}',
        b'{"score": 1e999}',
        b'{"score": 1.5}',
        b'{"score": -1}',
        b'{"score": null}',
        b'{"score": 1, "score": 1}',
        b'{"score": 1, "reward": 1}',
        b'{"score": 1, "metadata": [1]}',
        b'{"score": 1, "metadata": {"x": NaN}}',
        b'{"score": 1} {"score": 1}',
        b'{"score": ' + b"9" * 5000 + b"}",
        b'{"score": ' + b"[" * 60_000,
        b"\xff\xfe{",
        b'\xef\xbb\xbf{"score": 1}',
    ],
)
def test_a_wrong_result_scores_0_with_the_reason(result: bytes) -> None:
    scoring = read_result(FINE, result)
    assert scoring.score == 0.0
    assert scoring.metadata["reason"].startswith("the scoring script wrote")


@pytest.mark.parametrize(
    ("exit_code", "timed_out", "reason"),
    [(1, False, "exit code 1"), (137, False, "exit code 137"), (None, True, "ran out of time")],
)
def test_a_script_that_did_not_end_well_scores_0_even_when_it_wrote_a_result(
    exit_code: int | None, timed_out: bool, reason: str
) -> None:
    done = CommandResult(b"Traceback", exit_code, timed_out, 0, 1.0)
    scoring = read_result(done, b'{"score": 1.0}')
    assert scoring.score == 0.0
    assert reason in scoring.metadata["reason"]
    assert scoring.metadata["output"] == "Traceback"


@pytest.mark.parametrize(
    "arguments", [{"script": 5}, {"timeout_s": "a"}, {"timeout_s": True}, {"timeout_s": float("nan")}, {"memory_bytes": 0}]
)
def test_a_judge_of_wrong_arguments_is_refused(arguments: Any) -> None:
    with pytest.raises(ConfigError):
        ExecutableJudge(**arguments)
