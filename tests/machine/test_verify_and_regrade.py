"""Records of real episodes: verified, changed byte by byte, graded again in real grader machines."""

from __future__ import annotations

import json
import secrets
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from karotte_gym.wrappers import CustodyGrading, MisbehaviorToZero

from karotte_gym import ExecutableJudge, Sandbox, Step, Task
from karotte_gym.agents.scripted import play
from karotte_gym.env import KarotteEnv
from karotte_gym.evidence.regrade import regrade
from karotte_gym.evidence.sealing import read_record, sealed
from karotte_gym.evidence.verify import Finding, verify
from karotte_gym.redteam.pack import solution_of
from karotte_gym.registration import load_task
from karotte_gym.run_files import write_json

pytestmark = [pytest.mark.machine, pytest.mark.timeout(600)]
TASK = load_task("q3-revenue")
SUBMIT = {"name": "submit", "arguments": {"message": "done"}}
WRONG = {"name": "bash", "arguments": {"command": "echo 1 > /workdir/data/answer.txt"}}
TREE = {
    "name": "bash",
    "arguments": {
        "command": "mkdir -p /workdir/out/a && cd /workdir/out && echo 3 > a/b && echo '#!/bin/sh' > c && chmod +x c"
    },
}


class Tossed(Task):
    """Draws from more than its seed: a coin of the host's."""

    id = "tossed"
    steps = (Step("Do as you like.", ("/workdir/x",), ExecutableJudge("verify_grade.py")),)

    def __init__(self, config: Mapping[str, Any] | None = None):
        super().__init__(config)
        self._coin = b""

    def pre_hook(self, sandbox: Sandbox, rng: np.random.Generator) -> None:  # noqa: ARG002
        self._coin = secrets.token_bytes(8)

    def grading_data(self) -> Mapping[str, bytes]:
        return {"coin": self._coin}


class Tree(Task):
    """Takes a folder, and scores by its entries."""

    id = "tree"
    steps = (Step("Make a folder.", ("/workdir/out",), ExecutableJudge("verify_grade.py")),)


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four episodes: solved and not, with the task's own data and with generated ones."""
    runs = tmp_path_factory.mktemp("runs")
    for generated in (False, True):
        with gym.make("karotte/q3-revenue", generated=generated, run_dir=str(runs)) as env:
            assert play(env, solution_of(TASK), seed=11).reward == 1.0
            assert play(env, [WRONG, SUBMIT], seed=12).reward == 0.0
    return runs


def again(directory: Path, task: type[Task] = TASK) -> list[Finding]:
    return list(regrade(directory, read_record(directory / "record.json"), task))


def command(*arguments: object) -> tuple[int, Any]:
    argv = [sys.executable, "-m", "karotte_gym.cli.main", "verify", *map(str, arguments), "--json"]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=280)
    assert done.stdout, done.stderr
    return done.returncode, json.loads(done.stdout)


def test_stored_submissions_earn_the_same_score_again_also_with_generated_data(played: Path) -> None:
    code, found = command(played, "--regrade")
    assert (code, found["ok"]) == (0, True), found
    assert sorted(each["score"] for each in found["episodes"]) == [0.0, 0.0, 1.0, 1.0]
    for each in found["episodes"]:
        (score,) = [finding for finding in each["findings"] if finding["artifact"] == "score of step 1"]
        assert (score["verdict"], score["sentence"]) == ("ok", f"{each['score']} again")


def test_a_real_record_names_emulator_image_and_kernel(played: Path) -> None:
    record = read_record(next(played.iterdir()) / "record.json")
    assert record.versions["qemu"].startswith("QEMU emulator")
    assert len(record.versions["image"]) == 32
    assert record.versions["kernel"][0].isdigit()


def test_one_changed_byte_of_each_kind_of_artifact_is_named(played: Path, tmp_path: Path) -> None:
    (source, *_) = sorted(played.iterdir())
    names = [str(path.relative_to(source)) for path in source.rglob("*") if path.is_file()]
    assert sorted(names) == ["record.json", "submission-1/000000", "transcript.jsonl"]
    for number, name in enumerate(names):
        copy = tmp_path / str(number) / source.name
        shutil.copytree(source, copy)
        data = bytearray((copy / name).read_bytes())
        data[len(data) // 2] ^= 1
        (copy / name).write_bytes(data)
        wrong = [finding.artifact for finding in verify(copy, None).findings if not finding.ok]
        assert wrong == [name] or (name == "record.json" and wrong == ["seal"])


def test_a_forged_score_does_not_survive_a_second_grading_though_its_seal_is_right(played: Path, tmp_path: Path) -> None:
    source = next(path for path in played.iterdir() if read_record(path / "record.json").score == 0.0)
    copy = tmp_path / source.name
    shutil.copytree(source, copy)
    record = read_record(copy / "record.json")
    step = record.steps[0].model_copy(update={"score": 1.0})
    forged = sealed(record.model_copy(update={"score": 1.0, "steps": [step]}), None)
    write_json(copy / "record.json", forged.model_dump(mode="json"))
    assert command(copy)[0] == 0  # the digests alone do not show it
    finding, total = again(copy)
    assert (finding.verdict, finding.sentence) == ("differs", "graded again it is 0.0, recorded 1.0")
    assert (total.verdict, total.sentence) == ("differs", "the task makes of its steps 0.0, recorded 1.0")


def test_a_changed_submission_is_not_graded_again(played: Path, tmp_path: Path) -> None:
    source = next(path for path in played.iterdir() if read_record(path / "record.json").score == 0.0)
    copy = tmp_path / source.name
    shutil.copytree(source, copy)
    (copy / "submission-1/000000").write_bytes(b"7\n")
    finding, _ = again(copy)
    assert finding.verdict == "differs"
    assert "submission-1/000000 is not what was handed in" in finding.sentence
    code, found = command(copy, "--regrade")
    assert code == 1
    assert "not graded again" in found["episodes"][0]["findings"][-1]["sentence"]


def test_a_task_that_draws_from_more_than_its_seed_is_found_out(tmp_path: Path) -> None:
    with MisbehaviorToZero(CustodyGrading(KarotteEnv(f"{__name__}:Tossed", run_dir=str(tmp_path)))) as env:
        assert play(env, [SUBMIT], seed=1).finished
    finding, _ = again(next(tmp_path.iterdir()), Tossed)
    assert (finding.verdict, "pre_hook draws from more than its rng" in finding.sentence) == ("differs", True)


def test_a_folder_is_graded_again_entry_by_entry(tmp_path: Path) -> None:
    with MisbehaviorToZero(CustodyGrading(KarotteEnv(f"{__name__}:Tree", run_dir=str(tmp_path)))) as env:
        reward = play(env, [TREE, SUBMIT], seed=1).reward
    (directory,) = tmp_path.iterdir()
    assert 0 < reward < 1
    assert verify(directory, None).ok
    assert [(finding.verdict, finding.sentence) for finding in again(directory, Tree)] == [("ok", f"{reward} again")] * 2
