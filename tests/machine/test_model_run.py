"""The command, a real machine and a real server: the honest model earns 1.0, and its key is nowhere to be found."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import psutil
import pytest

from karotte_gym.runs.directory import RunDirectory
from tests.model_server import Fail, ModelServer, Reply, Request, Say, call

pytestmark = pytest.mark.machine
ROOT = Path(__file__).parents[2]
SOLUTION = json.loads((ROOT / "envs/q3_revenue/solution.json").read_text())
CANARY = "sk-canary-6e1f0b9c4d7a"
MODELS = {"openai": ("openai/some-model", "/v1"), "anthropic": ("anthropic/claude-sonnet-4-5", "")}
# the student's own search: its environment, every process it can see, every file it can read
SEARCH = f"env; cat /proc/*/environ /proc/*/cmdline 2>/dev/null | tr '\\0' '\\n' | grep -c '{CANARY[:9]}[-]6e'; " + (
    f"timeout 60 grep -rlsI '{CANARY[:9]}[-]6e' / --exclude-dir=proc --exclude-dir=sys | wc -l"
)


def honest(request: Request) -> Reply:
    step = SOLUTION[min(request.turns_so_far, len(SOLUTION) - 1)]
    return Say(calls=[call(step["name"], step["arguments"])])


def begin(server: ModelServer, protocol: str, run_dir: Path, *arguments: str) -> subprocess.Popen[str]:
    model, path = MODELS[protocol]
    command = [sys.executable, "-m", "karotte_gym.cli.main", "run", "--task", "q3-revenue", "--model", model]
    command += ["--api-base", server.url + path, "--api-key", "$SOME_KEY", "--run-dir", str(run_dir), *arguments]
    environment = {**os.environ, "SOME_KEY": CANARY}
    return subprocess.Popen(command, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)


@pytest.mark.parametrize("protocol", ["openai", "anthropic"])
def test_the_honest_model_earns_one(tmp_path: Path, protocol: str) -> None:
    with ModelServer(honest) as server:
        process = begin(server, protocol, tmp_path / "run", "-n", "2", "--expect-mean", "1.0", "--json")
        output, _ = process.communicate(timeout=280)
    assert process.returncode == 0, output
    episodes = dict(RunDirectory(tmp_path / "run").episodes())
    assert {index: episode.reward for index, episode in episodes.items()} == {0: 1.0, 1: 1.0}
    assert all(episode.record and episode.contracts and episode.runtime for episode in episodes.values())
    assert episodes[0].tools[0]["exit_code"] == 0


def test_the_key_is_nowhere_but_in_the_header(tmp_path: Path) -> None:
    seen: list[str] = []

    def reply(request: Request) -> Reply:
        seen.extend(_what_processes_show())
        if request.number == 1:
            return Fail(500, message=f"the key {CANARY} is not welcome")
        if request.turns_so_far == 0:
            command = f"echo {CANARY} > /tmp/x; {SEARCH}; printf 'sk-canary%s' -6e > /tmp/planted; {SEARCH}"
            return Say(f"it is {CANARY}", calls=[call("bash", {"command": command})])
        step = SOLUTION[min(request.turns_so_far - 1, len(SOLUTION) - 1)]
        return Say(calls=[call(step["name"], step["arguments"])])

    with ModelServer(reply) as server:
        process = begin(server, "openai", tmp_path / "run", "-n", "1")
        output, _ = process.communicate(timeout=280)
    assert process.returncode == 0, output
    assert all(request.headers["authorization"] == f"Bearer {CANARY}" for request in server.requests)
    assert CANARY not in output and CANARY not in str([request.body for request in server.requests])
    episode = RunDirectory(tmp_path / "run").load(0)
    assert episode is not None and episode.reward == 1.0
    found = str(next(message["content"] for message in episode.messages if message["role"] == "tool"))
    numbers = [line for line in found.splitlines() if line.isdigit()]
    assert numbers == ["0", "0", "0", "1"], found  # the last: the search does find what is there
    assert len(seen) > 3 and not any(CANARY in text for text in seen)
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert len(files) > 3 and not any(CANARY.encode() in path.read_bytes() for path in files)


def _what_processes_show() -> list[str]:
    """Arguments of all processes; environments of the machines and their wardens, which inherit nothing of ours."""
    shown = []
    for process in psutil.process_iter():
        try:
            shown.append(" ".join(process.cmdline()))
            if process.name().startswith("qemu") or "warden" in shown[-1]:
                shown.append(str(process.environ()))
        except (psutil.NoSuchProcess, psutil.ZombieProcess):
            continue  # it ended meanwhile
    return shown


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_during_a_long_command_ends_everything(tmp_path: Path, number: signal.Signals) -> None:
    def reply(request: Request) -> Say:
        return Say(calls=[call("bash", {"command": "sleep 100" if request.turns_so_far else "true"})])

    with ModelServer(reply) as server:
        process = begin(server, "openai", tmp_path / "run", "-n", "3", "--parallel", "1")
        end = time.monotonic() + 200
        while len(server.requests) < 2:  # an answer has arrived and been followed, then
            assert time.monotonic() < end and process.poll() is None
            time.sleep(0.1)
        time.sleep(1)
        children = psutil.Process(process.pid).children(recursive=True)
        assert children
        process.send_signal(number)
        output, _ = process.communicate(timeout=120)
    assert process.returncode == 128 + number, output
    episode: Any = RunDirectory(tmp_path / "run").load(0)
    assert (episode.status, episode.reward, episode.misbehavior) == ("interrupted", None, None)
    assert len(episode.messages) >= 3
    _, alive = psutil.wait_procs(children, timeout=30)
    assert alive == []
