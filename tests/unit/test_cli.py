"""The command line answers wrong input in one line with exit code 2, and loads only what it runs."""

from __future__ import annotations

import io
import itertools
import json
import subprocess
import sys
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest
import typer
from rich.console import Console

from karotte_gym.agents.scripted import Played
from karotte_gym.cli import doctor, progress, script_run
from karotte_gym.cli import run as run_command
from karotte_gym.cli.main import COMMANDS, _show_warning, app
from karotte_gym.sandbox import accelerator


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "karotte_gym.cli.main", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)


@pytest.mark.parametrize(
    ("text", "word"),
    [
        (b"{", "no JSON"),
        (b"", "no JSON"),
        (b"\xff\xfe", "no JSON"),
        (b"[" * 100_000, "no JSON"),
        (b'{"name": "bash"}', "list"),
        (b'"bash"', "list"),
    ],
)
def test_a_script_that_is_no_list_is_one_line_and_exit_code_2(tmp_path: Path, text: bytes, word: str) -> None:
    script = tmp_path / "script.json"
    script.write_bytes(text)
    done = run("run", "--task", "q3-revenue", "--script", str(script))
    assert (done.returncode, done.stdout) == (2, "")
    (line,) = done.stderr.splitlines()
    assert word in line
    assert str(script) in line


def test_a_script_that_is_not_there_and_a_task_that_is_not_there_are_named(tmp_path: Path) -> None:
    done = run("run", "--task", "q3-revenue", "--script", str(tmp_path / "none.json"))
    assert (done.returncode, len(done.stderr.splitlines())) == (2, 1)
    (tmp_path / "s.json").write_text("[]")
    done = run("run", "--task", "no-such", "--script", str(tmp_path / "s.json"))
    assert done.returncode == 2
    assert "no-such" in done.stderr
    assert "q3-revenue" in done.stderr


def test_the_tasks_are_listed() -> None:
    assert "karotte/q3-revenue" in run("tasks", "list").stdout
    rows = json.loads(run("tasks", "list", "--json").stdout)
    assert rows[0]["tools"] == ["bash", "view_lines_in_file", "replace_in_file", "submit"]


def test_the_version_is_printed_and_nothing_else() -> None:
    shown = run("--version")
    assert (shown.returncode, shown.stdout, shown.stderr) == (0, f"{metadata.version('karotte-gym')}\n", "")


def test_help_names_every_command_and_loads_none() -> None:
    shown = run("--help")
    assert shown.returncode == 0
    assert all(name in shown.stdout for name in COMMANDS)


@pytest.mark.parametrize("name", list(COMMANDS))
def test_every_command_loads_and_explains_itself(name: str) -> None:
    shown = run(name, "--help")
    assert shown.returncode == 0, shown.stderr
    assert "Usage" in shown.stdout


def test_an_unknown_command_is_refused() -> None:
    assert run("no-such-command").returncode == 2


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (["run", "--task", "q3-revenue"], "who plays"),
        (["run", "--script", "x.json"], "name the task"),
        (["run", "--task", "q3-revenue", "--script", "x.json", "--model", "m"], "plays no model"),
        (["run", "--task", "q3-revenue", "--model", "m", "--api-key", "sk-123"], "takes a reference"),
    ],
)
def test_a_run_that_does_not_say_who_plays_what_is_refused(arguments: list[str], word: str) -> None:
    done = run(*arguments)
    assert done.returncode == 2
    assert word in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert "sk-123" not in done.stderr


def test_an_empty_script_is_refused_before_any_machine(tmp_path: Path) -> None:
    (tmp_path / "s.json").write_text("[]")
    done = run("run", "--task", "q3-revenue", "--script", str(tmp_path / "s.json"))
    assert (done.returncode, done.stdout, len(done.stderr.splitlines())) == (2, "", 1)
    assert "has no calls" in done.stderr


def test_a_run_dir_that_can_not_be_made_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "s.json").write_text('[{"name": "submit"}]')
    done = run("run", "--task", "q3-revenue", "--script", str(tmp_path / "s.json"), "--run-dir", "/proc/x")
    assert (done.returncode, len(done.stderr.splitlines())) == (2, 1), done.stderr
    assert "/proc/x" in done.stderr


def test_redteam_finds_a_bad_pack_and_a_bad_junit_path_before_it_plays(tmp_path: Path) -> None:
    (tmp_path / "p.json").write_text('{"name": "x"}')
    done = run("redteam", "q3-revenue", "--pack", str(tmp_path / "p.json"))
    assert done.returncode == 2
    assert "pack" in done.stderr
    assert "script" not in done.stderr
    done = run("redteam", "q3-revenue", "--junit", str(tmp_path / "none" / "j.xml"))
    assert (done.returncode, len(done.stderr.splitlines())) == (2, 1), done.stderr
    assert "--junit" in done.stderr


@pytest.mark.parametrize(
    ("reward", "scoring", "line"),
    [(0.0, {"reason": "no\nfile"}, "reward 0.0: no file"), (0.0, None, "reward 0.0"), (1.0, {"reason": "r"}, "reward 1.0")],
)
def test_the_reward_is_the_last_line_with_its_reason_when_it_is_0(reward, scoring, line) -> None:  # type: ignore[no-untyped-def]
    out = io.StringIO()
    info = {"misbehavior": None, "record": {"x": 1}, "scoring": scoring}
    script_run._print_end(Console(file=out), Played(reward=reward, finished=True, info=info), 0, 1)
    assert out.getvalue().splitlines()[-1] == line


@pytest.mark.parametrize("kept", [True, False])
def test_without_the_record_its_path_is_printed_where_there_is_one(kept: bool) -> None:
    info = {"misbehavior": None, "record": {"x": 1}, "scoring": None} | (
        {"transcript_path": "/runs/a/transcript.jsonl"} if kept else {}
    )
    played = Played(reward=1.0, finished=True, info=info)
    shown = {}
    for show_record in (True, False):
        out = io.StringIO()
        script_run._print_end(Console(file=out), played, 0, 1, show_record)
        shown[show_record] = out.getvalue().splitlines()
    paths = ["record: /runs/a/record.json", "transcript: /runs/a/transcript.jsonl"] if kept else []
    assert shown[False] == [*paths, "reward 1.0"]
    assert shown[True] == ["record: {", ' "x": 1', "}", *paths[1:], "reward 1.0"]


def test_a_tasks_configuration_of_a_script_reaches_the_task_and_adds_to_generated(tmp_path: Path) -> None:
    (tmp_path / "s.json").write_text('[{"name": "submit"}]')
    asked = ["run", "--task", "q3-revenue", "--script", str(tmp_path / "s.json"), "--task-config"]
    for text, word in (('{"generate": true}', "there is no 'generate'"), ("[]", "must be a JSON object")):
        done = run(*asked, text)
        assert (done.returncode, done.stdout, len(done.stderr.splitlines())) == (2, "", 1), done.stderr
        assert word in done.stderr
    assert run_command._task_config('{"other": 1}', True) == {"other": 1, "generated": True}
    assert run_command._task_config(None, False) is None


@pytest.mark.parametrize("name", ["run", "redteam", "validate"])
def test_one_name_says_everywhere_how_many_episodes_run_at_a_time(name: str) -> None:
    options = {text for option in _options(name) for text in option if "--parallel" in option}
    assert {"-p", "--parallel"} <= options


@pytest.mark.parametrize("name", ["run", "validate", "mcp"])
def test_one_name_is_everywhere_the_tasks_configuration(name: str) -> None:
    assert any("--task-config" in option for option in _options(name))
    other_name = any({"--task-config", "--config"} <= set(option) for option in _options(name))
    assert other_name == (name != "run"), "run --config is a file of settings"


def _options(name: str) -> list[list[str]]:
    group: Any = typer.main.get_command(app)
    return [list(parameter.opts) for parameter in group.get_command(None, name).params]


def test_a_stage_is_named_when_it_begins_and_each_machines_has_its_own_time(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    now = itertools.count()
    monkeypatch.setattr(progress.time, "monotonic", lambda: next(now))
    with progress.stages() as report:
        for machine in range(2):
            report("boot", 0.0)  # has no end: the next stage begins
            assert "booting a machine" in capsys.readouterr().err, machine
            for fraction in (0.0, 0.0, 0.5, 1.0):
                report("save", fraction)
            assert capsys.readouterr().err.splitlines() == ["saving the snapshot ...", "saving the snapshot: 3.0 s"]


def test_what_is_counted_is_a_line_for_each_one_done_where_there_is_no_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    with progress.counted("checks", 2) as tell:
        for done, doing in ((0, "first"), (0, "first: episode 1"), (1, "second"), (1, "second: episode 1")):
            tell(done, doing)
    assert capsys.readouterr().err.splitlines() == ["0 of 2 done: first", "1 of 2 done: second"]


def test_our_own_warning_is_a_note_and_another_is_shown_as_python_does(capsys: pytest.CaptureFixture[str]) -> None:
    _show_warning("machines are emulated", RuntimeWarning, accelerator.__file__, 76)
    assert capsys.readouterr().err == "note: machines are emulated\n"


def test_doctor_says_once_that_the_cache_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "_cache", lambda: doctor.Check("cache", False, "bad", "fix"))
    found = {check.name: check for check in doctor.checks()}
    assert found["cache"].required
    assert [found[name].found for name in ("space", "image", "accelerator")] == ["not checked"] * 3
    assert not any(found[name].required for name in ("space", "image", "accelerator"))
