"""The command line answers wrong input in one line with exit code 2, and loads only what it runs."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from pathlib import Path

import pytest
from rich.console import Console

from karotte_gym.agents.scripted import Played
from karotte_gym.cli import doctor, script_run
from karotte_gym.cli.main import COMMANDS, _show_warning
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


def test_our_own_warning_is_a_note_and_another_is_shown_as_python_does(capsys: pytest.CaptureFixture[str]) -> None:
    _show_warning("machines are emulated", RuntimeWarning, accelerator.__file__, 76)
    assert capsys.readouterr().err == "note: machines are emulated\n"


def test_doctor_says_once_that_the_cache_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "_cache", lambda: doctor.Check("cache", False, "bad", "fix"))
    found = {check.name: check for check in doctor.checks()}
    assert found["cache"].required
    assert [found[name].found for name in ("space", "image", "accelerator")] == ["not checked"] * 3
    assert not any(found[name].required for name in ("space", "image", "accelerator"))
