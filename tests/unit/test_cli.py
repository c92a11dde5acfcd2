"""The command line answers wrong input in one line with exit code 2, and loads only what it runs."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from karotte_gym.cli.main import COMMANDS


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
