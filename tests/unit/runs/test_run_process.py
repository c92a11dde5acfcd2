"""A run as a process of its own: exit codes, resuming, signals, and where the key goes (nowhere)."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from host_load import within

from karotte_gym.runs.directory import RunDirectory
from tests.model_server import Fail, Hang, ModelServer, Reply, Request, Say, call

ROOT = Path(__file__).parents[3]
CANARY = "sk-canary-6e1f0b9c4d7a"
ANSWER = Say(calls=[call("bash", {"command": "answer 42"})])
SUBMIT = Say(calls=[call("submit", {})])


def honest(request: Request) -> Reply:
    return SUBMIT if "did answer" in str(request.body["messages"]) else ANSWER


def begin(directory: Path, server: ModelServer, *arguments: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "tests.unit.runs.little_run", str(directory), server.url + "/v1", *arguments]
    environment = {**os.environ, "OPENAI_API_KEY": CANARY}
    return subprocess.Popen(command, cwd=ROOT, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)


def run(directory: Path, server: ModelServer, *arguments: str) -> tuple[int, str]:
    process = begin(directory, server, *arguments)
    output, _ = process.communicate(timeout=120)
    return process.returncode, output


def seed_of(request: Request) -> str:
    found = re.search(r"seed (\d+)\)", str(request.body))
    assert found is not None
    return found[1]


def test_a_run_ends_with_zero_a_line_per_episode_and_a_summary(tmp_path: Path) -> None:
    with ModelServer(honest) as server:
        code, output = run(tmp_path / "run", server, "3")
    assert code == 0 and output.count("scored, reward 1") == 3, output
    summary = json.loads((tmp_path / "run/summary.json").read_text())
    assert (summary["verdicts"], summary["mean"], summary["pass_at_k"]) == (3, 1.0, {"1": 1.0, "2": 1.0})
    assert "\x1b" not in output  # no terminal, no colours


def test_episodes_without_a_verdict_give_exit_code_3_and_only_they_are_played_again(tmp_path: Path) -> None:
    broken = {"yes": True}

    def reply(request: Request) -> Reply:
        return Fail(400) if broken["yes"] and "seed 1)" in str(request.body) else honest(request)

    with ModelServer(reply) as server:
        assert run(tmp_path, server, "3")[0] == 3
        assert RunDirectory(tmp_path).finished() == {0, 2}
        broken["yes"], before = False, len(server.requests)
        code, output = run(tmp_path, server, "3")
        assert (code, len(server.requests) - before) == (0, 2)
        assert run(tmp_path, server, "3")[0] == 0 and len(server.requests) - before == 2
    assert "2 episodes" in output and RunDirectory(tmp_path).finished() == {0, 1, 2}
    assert len(list((tmp_path / "earlier").iterdir())) == 1


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("during", ["model", "machine"])
def test_a_signal_ends_a_run_cleanly_with_its_transcripts(tmp_path: Path, number: signal.Signals, during: str) -> None:
    def reply(request: Request) -> Reply:
        return Hang() if during == "model" and request.turns_so_far else honest(request)

    with ModelServer(reply) as server:
        process = begin(tmp_path / "run", server, "4", *(["600"] if during == "machine" else []))
        if during == "model":
            assert within(120, lambda: len({seed_of(request) for request in server.requests if request.turns_so_far}) == 2)
        else:
            assert within(120, lambda: len(list(tmp_path.glob("run.steps/*"))) == 2)
        started = time.monotonic()
        process.send_signal(number)
        output, _ = process.communicate(timeout=100)
    assert process.returncode == 128 + number and time.monotonic() - started < 100, output
    episodes = dict(RunDirectory(tmp_path / "run").episodes())
    assert len(episodes) == 2
    assert all(episode.status == "interrupted" and episode.reward is None for episode in episodes.values())
    assert all(len(episode.messages) >= 3 for episode in episodes.values())


def test_a_run_that_only_fails_gives_up(tmp_path: Path) -> None:
    with ModelServer(lambda _: Fail(404, message="no such model")) as server:
        code, output = run(tmp_path, server, "100")
    assert code == 3 and "given up" in output and "no such model" in output
    assert len(server.requests) <= 13


def test_the_key_is_found_nowhere_but_in_the_header(tmp_path: Path) -> None:
    """Files, output and the arguments of every process, while a server repeats the key at every chance."""
    seen: list[str] = []

    def reply(request: Request) -> Reply:
        seen.extend(_process_arguments())
        if request.number % 3 == 1:
            return Fail(500, {"x-echo": CANARY}, message=f"key {CANARY} is not welcome")
        if request.number % 3 == 2 and request.turns_so_far < 3:
            return Say(f"it is {CANARY}", calls=[call("bash", {"command": f"echo {CANARY}"})], reasoning=CANARY)
        return honest(request)

    with ModelServer(reply) as server:
        code, output = run(tmp_path, server, "6")
    assert code == 0 and all(request.headers["authorization"] == f"Bearer {CANARY}" for request in server.requests)
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert len(files) > 7 and not any(CANARY.encode() in path.read_bytes() for path in files)
    assert CANARY not in output and not any(CANARY in arguments for arguments in seen)
    assert any("[key]" in path.read_text() for path in files)  # it was there to be taken out


def _process_arguments() -> list[str]:
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                found.append((entry / "cmdline").read_bytes().decode(errors="replace"))
            except (FileNotFoundError, ProcessLookupError):
                continue  # it ended meanwhile
    return found
