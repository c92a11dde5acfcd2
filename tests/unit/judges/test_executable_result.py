"""What `ExecutableJudge` makes of a script's result beside the score: threshold, printed output, the end of the task."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pydantic import ValidationError

from karotte_gym import ConfigError, ExecutableJudge, Scoring
from karotte_gym.judges.executable import KEPT_OUTPUT_CHARS, read_result
from karotte_gym.sandbox.contract import CommandResult
from karotte_gym.scoring import MAX_METADATA_BYTES


def done(output: bytes = b"") -> CommandResult:
    return CommandResult(output=output, exit_code=0, timed_out=False, cut_bytes=0, duration_s=0.1)


def result(score: Any = 0.5, **more: Any) -> bytes:
    return json.dumps({"score": score, **more}).encode()


@pytest.mark.parametrize(("raw", "score"), [(0.0, 0.0), (0.7999, 0.0), (0.8, 1.0), (1, 1.0)])
def test_a_threshold_makes_it_all_or_nothing_and_keeps_the_raw_score(raw: float, score: float) -> None:
    scoring = read_result(done(), result(raw, metadata={"note": 1}), 0.8)
    assert (scoring.score, scoring.metadata) == (score, {"note": 1, "raw_score": float(raw)})


def test_a_script_can_not_forge_its_raw_score() -> None:
    assert read_result(done(), result(0.1, metadata={"raw_score": 1.0}), 0.8).metadata["raw_score"] == 0.1


@pytest.mark.parametrize("threshold", [0, -0.5, 1.5, True, "0.5", float("nan")])
def test_a_threshold_that_everything_or_nothing_reaches_is_refused(threshold: Any) -> None:
    with pytest.raises(ConfigError, match="threshold"):
        ExecutableJudge(threshold=threshold)


def test_what_the_script_printed_is_kept_when_it_scored_and_bounded() -> None:
    scoring = read_result(done(b"start" + b"x" * 10_000 + b"\xff end"), result(1.0, metadata={"note": 1}))
    assert scoring.metadata["note"] == 1
    assert len(scoring.metadata["output"]) == KEPT_OUTPUT_CHARS and scoring.metadata["output"].endswith("\ufffd end")


def test_the_scripts_own_notes_come_before_its_output() -> None:
    assert read_result(done(b"printed"), result(metadata={"output": "mine"})).metadata == {"output": "mine"}
    full = {"x": "y" * (MAX_METADATA_BYTES - 20)}
    assert read_result(done(b"printed" * 100), result(metadata=full)) == Scoring(0.5, full)


def test_a_script_may_end_the_task() -> None:
    assert read_result(done(), result(0.0, stop_task=True)).stop_task is True
    assert read_result(done(), result(0.0, stop_task=True), 0.5).stop_task is True
    assert read_result(done(b"printed"), result(0.0, stop_task=True)).stop_task is True
    assert read_result(done(), result(0.0)).stop_task is False


@pytest.mark.parametrize("stop_task", [1, 0, "true", None, []])
def test_only_a_truth_value_ends_a_task(stop_task: Any) -> None:
    scoring = read_result(done(), result(1.0, stop_task=stop_task))
    assert scoring.score == 0.0 and scoring.metadata["grading_fault"] == "wrong_result"
    with pytest.raises(ValidationError):
        Scoring(1.0, {}, stop_task)
