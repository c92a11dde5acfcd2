"""`karotte-gym verify` over records, run directories and whole runs: exit code, words, and what a stranger's names may do."""

# ruff: noqa: ARG001 - `world` puts machines in memory in place
from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium as gym
import pytest
from memory_sandbox import World
from typer.testing import CliRunner
from verifying import SUBMIT, cli, flip

from karotte_gym.agents.function import FunctionAgent
from karotte_gym.agents.rollout import rollout
from karotte_gym.cli.main import app
from karotte_gym.errors import ConfigError
from karotte_gym.report import Store
from karotte_gym.run_files import write_json
from karotte_gym.runs.directory import RunDirectory


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["/no/such/place"], "no record and no run directory"),
        (["{empty}"], "holds no episode"),
        (["{directory}", "--tolerance", "0.1"], "give --regrade too"),
    ],
)
def test_wrong_usage_is_answered_in_a_sentence(directory: Path, tmp_path: Path, arguments: list[str], sentence: str) -> None:
    (tmp_path / "empty").mkdir()
    filled = [each.format(empty=tmp_path / "empty", directory=directory) for each in arguments]
    with pytest.raises(ConfigError, match=sentence):
        cli(*filled)


def test_of_several_records_each_has_a_verdict_and_one_that_fails_is_exit_code_1(directory: Path, tmp_path: Path) -> None:
    other = tmp_path / "other" / directory.name
    shutil.copytree(directory, other)
    (tmp_path / "empty").mkdir()
    assert cli(directory, other / "record.json") == (0, {**cli(directory)[1], "episodes": [*both(directory, other)]})
    flip(other / "transcript.jsonl")
    code, found = cli(directory, other)
    assert (code, found["ok"], [each["ok"] for each in found["episodes"]]) == (1, False, [True, False])
    shown = CliRunner().invoke(app, ["verify", str(other), str(tmp_path / "empty"), str(directory)])
    verdicts = [line for line in shown.stdout.splitlines() if "episodes: 1" in line]
    assert shown.exit_code == 1
    assert verdicts[0].startswith(f"{other}: WRONG: ") and verdicts[1].startswith(f"{directory}: ok: ")
    assert "holds no episode" in shown.stderr


def both(directory: Path, other: Path) -> list[Any]:
    return [each for path in (directory, other) for each in cli(path)[1]["episodes"]]


def test_a_path_without_an_episode_is_wrong_usage_after_the_others_have_their_verdict(directory: Path, tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["verify", str(tmp_path / "none"), str(directory)])
    assert isinstance(done.exception, ConfigError) and "no record and no run directory" in str(done.exception)
    assert f"{directory}: ok: " in done.stdout


def test_names_of_a_stranger_do_not_steer_the_terminal(directory: Path) -> None:
    (directory / "\x1b]0;owned\x07\x1b[2J").write_text("")
    done = CliRunner().invoke(app, ["verify", str(directory)])
    assert done.exit_code == 1
    assert "owned" in done.stdout
    assert "\x1b]" not in done.stdout and "\x1b[2J" not in done.stdout


KILLED = """
import sys, time
sys.path.insert(0, sys.argv[2])
from memory_sandbox import World
from karotte_gym.sandbox import machines
import gymnasium as gym, karotte_gym
world = World()
machines.start, machines.prefetch = world.start, world.prefetch
env = gym.make("karotte/q3-revenue", run_dir=sys.argv[1])
env.reset()
for number in range(3):
    env.step({"name": "bash", "arguments": {"command": f"echo {number}"}})
print("played", flush=True)
time.sleep(600)
"""


def test_a_killed_process_shows_as_unfinished_with_every_call(tmp_path: Path) -> None:
    arguments = [sys.executable, "-c", KILLED, str(tmp_path / "runs"), str(Path(__file__).parents[1])]
    process = subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None and process.stdout.readline() == "played\n"
    process.send_signal(signal.SIGKILL)
    process.wait()
    process.stdout.close()
    code, found = cli(tmp_path / "runs")
    (episode,) = found["episodes"]
    (finding,) = episode["findings"]
    assert (code, finding["verdict"], episode["score"]) == (1, "unfinished", None)
    assert "3 calls were played" in finding["sentence"]


def played_run(tmp_path: Path) -> RunDirectory:
    run = RunDirectory(tmp_path / "run")
    with run.opened({"task": "q3-revenue", "model": "x"}), gym.make("karotte/q3-revenue", run_dir=str(run.evidence)) as env:
        rollout(env, FunctionAgent(lambda *_: SUBMIT), sink=lambda episode: run.save(0, episode))
    return run


def test_a_run_whose_episode_says_another_score_than_its_evidence_is_found(world: World, tmp_path: Path) -> None:
    run = played_run(tmp_path)
    assert cli(run.path)[0] == 0
    path = run.path / "episodes/00000.json"
    values = json.loads(path.read_text())
    changes: list[Callable[[dict[str, Any]], object]] = [
        lambda episode: episode.update(score=0.5),
        lambda episode: episode["record"].update(score=0.5),
        lambda episode: episode.update(run_id="../../elsewhere"),
    ]
    for change in changes:
        changed = json.loads(json.dumps(values))
        change(changed)
        write_json(path, changed)
        code, found = cli(run.path)
        assert (code, found["findings"][0]["artifact"]) == (1, "episodes/00000.json")


def test_the_page_of_runs_notes_an_episode_that_was_killed(world: World, tmp_path: Path) -> None:
    run = played_run(tmp_path)
    assert Store(run.path).overview()["notes"] == []
    next(run.evidence.glob("*/record.json")).unlink()
    (note,) = Store(run.path).overview()["notes"]
    assert "has no record" in note
