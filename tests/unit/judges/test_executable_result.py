"""What `ExecutableJudge` makes of a script's result beside the score: threshold, printed output, the end of the task."""

from __future__ import annotations

import contextlib
import dataclasses
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from memory_sandbox import MemorySandbox, World
from pydantic import ValidationError

from karotte_gym import CallRefused, ConfigError, Evidence, ExecutableJudge, GradingError, Scoring
from karotte_gym.config import Hardware
from karotte_gym.judges.base import GraderNeeds
from karotte_gym.judges.executable import KEPT_OUTPUT_CHARS, read_result
from karotte_gym.sandbox.contract import CommandResult, MachineSpec, Sandbox, Submission, SubmittedFile
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


class Picky(MemorySandbox):
    """A grader machine that takes no file named "bad", and nothing at all when it is `broken`."""

    broken = False

    def put_file(self, path: str, data: bytes, **options: Any) -> None:
        if path.endswith("bad") or self.broken:
            raise CallRefused("bad-params", f"no room for {path}")
        super().put_file(path, data, **options)


def maker_of(kind: type[Picky] | type[Crowded], made: list[MemorySandbox], *, broken: bool) -> Callable[[], Any]:
    """What starts machines of that kind and notes them in `made`."""

    @contextlib.contextmanager
    def machine() -> Iterator[Sandbox]:
        sandbox = kind(MachineSpec(role="grader"), World())
        sandbox.broken = broken
        made.append(sandbox)
        yield sandbox

    return machine


@pytest.mark.parametrize("broken", [False, True])
def test_a_submission_that_no_machine_takes_is_a_zero_and_a_machine_that_takes_nothing_raises(
    tmp_path: Path, broken: bool
) -> None:
    (tmp_path / "0").write_bytes(b"x")
    bad = SubmittedFile("/workdir/bad", False, 0o644, 1, "", str(tmp_path / "0"))
    made: list[MemorySandbox] = []
    machine = maker_of(Picky, made, broken=broken)
    evidence = Evidence(Submission(files=(bad,)), machine, grading_data={"key": b"1"})
    if broken:
        with pytest.raises(GradingError, match="could not be put"):
            ExecutableJudge().judge(evidence)
    else:
        scoring = ExecutableJudge().judge(evidence)
        assert scoring.score == 0.0 and "no room for" in scoring.metadata["reason"]
    assert len(made) == 2


class Crowded(MemorySandbox):
    """A grader machine that has no room for a score beside a file, and for none at all when it is `broken`."""

    broken = False

    def score(self, *_args: Any, **_options: Any) -> tuple[CommandResult, bytes]:
        if self.files or self.broken:
            raise CallRefused("internal", "OSError: [Errno 28] No space left on device")
        return done(), result(0.0)


@pytest.mark.parametrize("broken", [False, True])
def test_a_submission_that_leaves_no_room_for_its_score_is_a_zero_and_a_machine_without_room_raises(
    tmp_path: Path, broken: bool
) -> None:
    """Otherwise a student that fills the grader's disk to the last block has every episode dropped that it would lose."""
    (tmp_path / "0").write_bytes(b"x")
    large = SubmittedFile("/workdir/large", False, 0o644, 1, "", str(tmp_path / "0"))
    made: list[MemorySandbox] = []
    machine = maker_of(Crowded, made, broken=broken)
    evidence = Evidence(Submission(files=(large,)), machine)
    if broken:
        with pytest.raises(GradingError, match="refused to run"):
            ExecutableJudge().judge(evidence)
    else:
        scoring = ExecutableJudge().judge(evidence)
        assert (scoring.score, scoring.metadata["grading_fault"]) == (0.0, "score")
        assert "No space left" in scoring.metadata["reason"]
    assert len(made) == 2


def test_other_limits_and_another_image_are_another_criterion(tmp_path: Path) -> None:
    (tmp_path / "grade.py").write_text("print()")
    needs = GraderNeeds(tmp_path, Hardware(), ())
    plain = ExecutableJudge().criterion(needs)
    assert (plain["timeout_s"], plain["memory_bytes"], "image_sha256" in plain) == ("60.0", str(256 * 1024**2), False)
    assert ExecutableJudge(timeout_s=60).criterion(needs) == plain
    assert ExecutableJudge(timeout_s=61).criterion(needs) != plain
    assert ExecutableJudge(memory_bytes=1).criterion(needs) != plain
    containerfile = tmp_path / "grader.Containerfile"
    containerfile.write_text("ARG BASE\nFROM ${BASE}\n")
    with_image = dataclasses.replace(needs, containerfile=str(containerfile))
    digests = [ExecutableJudge().criterion(with_image)["image_sha256"]]
    (tmp_path / "grader_image").mkdir()
    (tmp_path / "grader_image" / "tool.sh").write_text("exit 0")
    digests.append(ExecutableJudge().criterion(with_image)["image_sha256"])
    containerfile.write_text("ARG BASE\nFROM ${BASE}\nRUN true\n")
    digests.append(ExecutableJudge().criterion(with_image)["image_sha256"])
    assert len(set(digests)) == 3
