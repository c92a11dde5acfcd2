"""The command line: exit codes, one sentence for wrong input, JSON that is nothing but JSON."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from karotte_gym.validate import CHECKS
from tests.defective import made


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "karotte_gym.cli.main", *arguments], capture_output=True, text=True, timeout=120
    )


@pytest.mark.parametrize("command", [("validate",), ("check", "task")])
def test_a_sound_task_is_0_and_a_defective_one_1_with_its_fix(tmp_path: Path, command: tuple[str, ...]) -> None:
    made("path_not_named", tmp_path)
    made("sound", tmp_path)
    asked = ["--project", str(tmp_path), "--only", "paths-named", "--json"]
    sound = run(*command, "sound", *asked)
    assert (sound.returncode, json.loads(sound.stdout)["ok"]) == (0, True), sound.stderr
    bad = run(*command, "path-not-named", *asked)
    report = json.loads(bad.stdout)
    assert (bad.returncode, report["ok"], report["task"]) == (1, False, "path-not-named")
    assert report["findings"][0]["check"] == "paths-named"
    assert "/workdir/answer.txt" in report["findings"][0]["fix"]


def test_the_table_ends_with_the_verdict() -> None:
    done = run("validate", "q3-revenue", "--only", "paths-named", "--only", "original-path")
    left_out = f"{len(CHECKS) - 2} of {len(CHECKS)} checks left out"
    said = f"q3-revenue: nothing wrong so far, {left_out} (2 ok)"
    assert (done.returncode, done.stdout.splitlines()[-1]) == (0, said)


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (["no-such-task"], "no task"),
        (["q3-revenue", "--only", "everything"], "there is no check 'everything'"),
        (["q3-revenue", "--task-config", "{"], "--task-config is no JSON"),
        (["q3-revenue", "--config", "[]"], "must be a JSON object"),
        (["q3-revenue", "--config", '{"generate": true}'], "there is no 'generate'"),
    ],
)
def test_wrong_input_is_one_sentence_and_exit_2(arguments: list[str], word: str) -> None:
    done = run("validate", *arguments)
    assert (done.returncode, done.stdout, len(done.stderr.splitlines())) == (2, "", 1), done.stderr
    assert word in done.stderr
