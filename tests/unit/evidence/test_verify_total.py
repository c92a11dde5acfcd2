"""A record's score must follow from those of its steps, whoever sealed it."""

# ruff: noqa: ARG001 - `world` puts machines in memory in place
from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium as gym
import pytest
from memory_sandbox import World
from verifying import SUBMIT, cli, forge

from karotte_gym.registration import load_task
from karotte_gym.scoring import StudentMisbehavior


@pytest.fixture
def unearned(world: World, tmp_path: Path) -> Path:
    """Of an honest episode that earned 0."""
    world.result = b'{"score": 0.0}'
    with gym.make("karotte/q3-revenue", run_dir=str(tmp_path / "runs")) as env:
        env.reset(seed=1)
        env.step(SUBMIT)
    return next((tmp_path / "runs").iterdir())


TOTALS = [
    ({}, {"score": 1.0}, "that of the last step that was scored is 0.0"),
    ({}, {"score": 0.5, "task_config": '{"generated": true}'}, "that of the last step that was scored is 0.0"),
    ({}, {"score": 1.0, "steps": []}, "its score is 1.0 and would be none, since no step has one"),
    ({"score": None}, {"score": 1.0}, "its score is 1.0 and would be none, since no step has one"),
    ({}, {"score": None}, "its score is none and would be one, since its steps have"),
    ({"score": 1.0}, {"score": 1.0, "misbehavior": "a link"}, "its score is 1.0 and would be 0"),
    ({"score": 1.0}, {"score": 1.0, "limit": "turns"}, "its score is 1.0 and would be 0"),
    ({"score": 1.0}, {"score": 1.0, "error": "x"}, "its score is 1.0 and would be none, since it names an error"),
    ({}, {"score": True}, "no completion record: score"),
    ({}, {"score": 1e308}, "no completion record: score"),
    ({}, {"score": -0.5}, "no completion record: score"),
    ({"score": True}, {"score": 1.0}, "no completion record: steps.0.score"),
    ({}, {"calls": True}, "no completion record: calls"),
]


@pytest.mark.parametrize("options", [[], ["--regrade"]])
@pytest.mark.parametrize(("step", "changes", "sentence"), TOTALS)
def test_a_score_that_does_not_follow_from_the_steps_is_found_though_sealed(
    unearned: Path, step: dict[str, Any], changes: dict[str, Any], sentence: str, options: list[str]
) -> None:
    assert cli(unearned, *options)[0] == 0
    forge(unearned, step, **changes)
    code, found = cli(unearned, *options)
    findings = found["episodes"][0]["findings"]
    assert code == 1 and any(sentence in each["sentence"] for each in findings if each["verdict"] == "differs"), findings


def test_graded_again_a_forged_step_and_the_total_made_of_it_are_both_named(unearned: Path) -> None:
    forge(unearned, {"score": 1.0}, score=1.0)
    assert cli(unearned)[0] == 0  # what the record says of itself fits
    code, found = cli(unearned, "--regrade")
    assert (code, [each["artifact"] for each in found["episodes"][0]["findings"] if each["verdict"] == "differs"]) == (
        1,
        ["score of step 1", "score"],
    )


def test_a_made_up_digest_of_the_store_keeps_no_score_from_being_graded_again(unearned: Path) -> None:
    forge(unearned, {"score": 1.0, "store_sha256": "0" * 64}, score=1.0)
    code, found = cli(unearned, "--regrade")
    assert code == 1 and "gives another store now" in str(found)


@pytest.fixture
def combined(world: World, tmp_path: Path) -> Path:
    """Of a task of two steps whose score is the product of theirs, half a point each."""
    world.result = b'{"score": 0.5}'
    with gym.make("karotte/incident-report", run_dir=str(tmp_path / "runs")) as env:
        env.reset(seed=1)
        env.step(SUBMIT)
        assert env.step(SUBMIT)[1] == 0.25
    return next((tmp_path / "runs").iterdir())


def test_a_total_of_the_tasks_own_is_made_again_by_regrade_alone(combined: Path) -> None:
    code, found = cli(combined)
    (unsure,) = [each for each in found["episodes"][0]["findings"] if each["verdict"] == "not checked"]
    assert (code, unsure["artifact"], "which --regrade repeats" in unsure["sentence"]) == (0, "score", True)
    code, found = cli(combined, "--regrade")
    assert (code, {"artifact": "score", "verdict": "ok", "sentence": "0.25 again"} in found["episodes"][0]["findings"]) == (
        0,
        True,
    )
    forge(combined, score=0.5)
    assert cli(combined)[0] == 0
    code, found = cli(combined, "--regrade")
    assert (code, found["episodes"][0]["findings"][-1]["sentence"]) == (1, "the task makes of its steps 0.25, recorded 0.5")


def test_metadata_on_which_the_tasks_own_sum_fails_is_a_finding(combined: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(self: object, scorings: object) -> float:
        raise KeyError("points")

    monkeypatch.setattr(load_task("incident-report"), "combine_scores", broken)
    code, found = cli(combined, "--regrade")
    assert (code, "combine_scores fails with the steps' scores" in found["episodes"][0]["findings"][-1]["sentence"]) == (
        1,
        True,
    )


def test_what_misbehaviour_limits_and_faults_leave_is_consistent(world: World, tmp_path: Path) -> None:
    with gym.make("karotte/incident-report", run_dir=str(tmp_path)) as env:
        for end in ("custody", "limit", "operator", "given up", "nothing"):
            env.reset(seed=1)
            if end != "nothing":
                env.step(SUBMIT)  # a step that has a score, whatever comes of the episode
            if end == "custody":
                world.refusal = StudentMisbehavior("custody", "a link")
                assert env.step(SUBMIT)[1] == 0.0
                world.refusal = None
            elif end in ("limit", "operator"):
                env.unwrapped.break_off(end, limit="turns" if end == "limit" else None)  # type: ignore[attr-defined]
    code, found = cli(tmp_path)
    assert (code, len(found["episodes"])) == (0, 5), found
    assert sorted(str(each["score"]) for each in found["episodes"]) == ["0.0", "0.0", "0.0", "None", "None"]
