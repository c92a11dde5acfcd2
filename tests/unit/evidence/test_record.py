"""A record says how an episode ended, whatever ended it, and its seal shows what was changed afterwards."""

# ruff: noqa: ARG001 - `world` puts machines in memory in place
from __future__ import annotations

import gc
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import gymnasium as gym
import pytest
from memory_sandbox import MemorySandbox, World

from karotte_gym import ConfigError, GradingError, MachineError, StudentMisbehavior
from karotte_gym.agents.function import FunctionAgent
from karotte_gym.agents.rollout import RolloutLimits, rollout
from karotte_gym.env import KarotteEnv
from karotte_gym.errors import CallRefused, EvidenceError
from karotte_gym.evidence import sealing
from karotte_gym.evidence.listing import unfinished
from karotte_gym.evidence.sealing import KEY_VARIABLE, broken_seal, read_record
from karotte_gym.record import CompletionRecord
from karotte_gym.run_files import json_text
from karotte_gym.transcript import Transcript

BASH = {"name": "bash", "arguments": {"command": "true"}}
SUBMIT = {"name": "submit", "arguments": {"message": "done"}}
KEY = "a key of more than sixteen letters"


@pytest.fixture
def env(world: World, tmp_path: Path):  # type: ignore[no-untyped-def]
    made = gym.make("karotte/q3-revenue", run_dir=str(tmp_path))
    yield made
    made.close()


def the_record(tmp_path: Path) -> CompletionRecord:
    (path,) = tmp_path.glob("*/record.json")
    return read_record(path)


def test_a_scored_episode_names_claim_criterion_evidence_versions_seed_and_artifacts(env, tmp_path: Path) -> None:
    env.reset(seed=5)
    env.step(BASH)
    info = env.step(SUBMIT)[4]
    record = the_record(tmp_path)
    assert record.model_dump(mode="json") == info["record"]
    assert (record.score, record.seed, record.claimed, record.error, record.limit) == (1.0, 5, "done", None, None)
    (step,) = record.steps
    assert len(step.criterion["code_sha256"]) == len(step.criterion["data_sha256"]) == 64
    assert (step.submission[0].path, step.metadata) == ("/workdir/data/answer.txt", {"reason": "right"})
    assert set(record.artifacts) == {"transcript.jsonl", "submission-1/0"}
    assert {"karotte-gym", "gymnasium", "python"} <= record.versions.keys()
    assert any("memory is detected and reaped" in sentence for sentence in record.exceptions)


def test_generated_data_is_named_by_its_digest_and_never_kept(world: World, tmp_path: Path) -> None:
    with gym.make("karotte/q3-revenue", generated=True, run_dir=str(tmp_path)) as env:
        env.reset(seed=3)
        env.step(SUBMIT)
        expected = next(iter(env.unwrapped.episode.task.grading_data().values())).strip()
    assert len(the_record(tmp_path).steps[0].episode_data_sha256) == 64
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert len(files) == 3
    assert not any(expected in path.read_bytes() for path in files)


def test_an_episode_that_is_given_up_leaves_a_record_without_a_score(env, tmp_path: Path) -> None:
    env.reset()
    env.step(BASH)
    env.close()
    record = the_record(tmp_path)
    assert record.score is None
    assert "the episode was given up before its end" in record.exceptions
    assert Transcript.read(next(tmp_path.glob("*/transcript.jsonl"))).finished


def interrupt(monkeypatch: pytest.MonkeyPatch) -> None:
    """The next commands are cancelled, as by Ctrl-C."""

    def cancelled(*arguments: Any, **named: Any) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr(MemorySandbox, "bash", cancelled)


def test_after_an_interrupted_call_an_episode_that_goes_no_further_was_stopped(
    env, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    env.reset()
    interrupt(monkeypatch)
    with pytest.raises(KeyboardInterrupt):
        env.step(BASH)
    assert list(tmp_path.glob("*/record.json")) == []  # whoever sits before it may go on
    env.close()
    record = the_record(tmp_path)
    assert (record.score, record.error) == (None, "stopped by its operator")


def test_an_episode_that_goes_on_after_an_interrupted_call_is_as_any_other(
    env, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    env.reset()
    with monkeypatch.context() as once:
        interrupt(once)
        with pytest.raises(KeyboardInterrupt):
            env.step(BASH)
    env.step(BASH)
    env.step(SUBMIT)
    assert (the_record(tmp_path).score, the_record(tmp_path).error) == (1.0, None)


def test_a_reset_that_is_interrupted_was_stopped(env, world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def cancelled(*arguments: Any) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr(MemorySandbox, "start_session", cancelled)
    with pytest.raises(KeyboardInterrupt):
        env.reset()
    assert the_record(tmp_path).error == "stopped by its operator"


def test_an_environment_that_nobody_closes_leaves_its_record_when_it_is_collected(world: World, tmp_path: Path) -> None:
    env = KarotteEnv("q3-revenue", run_dir=str(tmp_path))
    env.reset()
    env.step(BASH)
    del env
    gc.collect()
    assert "the episode was given up before its end" in the_record(tmp_path).exceptions


@pytest.mark.parametrize("end", ["close", "_finalizer"])  # the last as the interpreter ends: an error's traceback holds it
def test_misbehaviour_that_nobody_concluded_leaves_its_record(world: World, tmp_path: Path, end: str) -> None:
    env = KarotteEnv("q3-revenue", run_dir=str(tmp_path))
    env.reset()
    world.refusal = StudentMisbehavior("custody", "a link")
    with pytest.raises(StudentMisbehavior):
        env.step(SUBMIT)
    getattr(env, end)()
    assert (the_record(tmp_path).misbehavior, the_record(tmp_path).score) == ("a link", 0.0)


MACHINES = """
import sys, time
sys.path.insert(0, sys.argv[2])
from memory_sandbox import MemorySandbox, World
from karotte_gym.sandbox import machines
import gymnasium as gym, karotte_gym

def hangs(self, command, **named):
    print("in a call", flush=True)
    time.sleep(600)

world = World()
machines.start, machines.prefetch, MemorySandbox.bash = world.start, world.prefetch, hangs
"""
SCRIPT = (
    MACHINES
    + """
from pathlib import Path
from karotte_gym.cli.script_run import run_script
from karotte_gym.registration import load_task
load_task("q3-revenue").prepare = lambda *arguments: None
sys.exit(run_script("q3-revenue", Path(sys.argv[3]), run_dir=Path(sys.argv[1]), episodes=2))
"""
)
PLAIN = (
    MACHINES
    + """
env = gym.make("karotte/q3-revenue", run_dir=sys.argv[1])
env.reset()
env.step({"name": "bash", "arguments": {"command": "sleep 9"}})
"""
)


def stopped(tmp_path: Path, program: str, number: signal.Signals) -> tuple[int, str, CompletionRecord]:
    """Exit code, output and record of a process that is sent a signal while a call runs."""
    script = tmp_path / "script.json"
    script.write_text(json.dumps([BASH, SUBMIT]))
    arguments = [sys.executable, "-c", program, str(tmp_path / "runs"), str(Path(__file__).parents[1]), str(script)]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        assert process.stdout is not None
        while "in a call" not in (line := process.stdout.readline()):
            assert line, "it ended before its call"
        process.send_signal(number)
        output, _ = process.communicate(timeout=60)
    return process.returncode, output, the_record(tmp_path / "runs")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_scripted_run_that_is_stopped_leaves_a_record_that_says_so(tmp_path: Path, number: signal.Signals) -> None:
    code, output, record = stopped(tmp_path, SCRIPT, number)
    assert (code, record.score, record.error) == (128 + number, None, "stopped by its operator"), output
    assert "Traceback" not in output


def test_a_script_of_ones_own_that_dies_of_an_interrupt_leaves_a_record_that_says_so(tmp_path: Path) -> None:
    code, output, record = stopped(tmp_path, PLAIN, signal.SIGINT)
    assert (code, record.score, record.error) == (-signal.SIGINT, None, "stopped by its operator"), output


def test_a_machine_that_can_not_be_started_leaves_a_record_that_names_it(env, world: World, tmp_path: Path) -> None:
    world.start_error = MachineError("no emulator")
    with pytest.raises(MachineError):
        env.reset()
    record = the_record(tmp_path)
    assert (record.score, record.error) == (None, "MachineError: no emulator")
    assert "the episode has no score: MachineError: no emulator" in record.exceptions


def test_a_failure_of_ours_in_a_call_leaves_a_record_that_names_it(env, world: World, tmp_path: Path) -> None:
    env.reset()
    world.refusal = CallRefused("bad-params", "a mistake of ours")
    with pytest.raises(MachineError):
        env.step(SUBMIT)
    assert (the_record(tmp_path).score, "a mistake of ours" in (the_record(tmp_path).error or "")) == (None, True)


def test_grading_that_fails_leaves_a_record_with_the_submission_and_without_a_score(
    env, world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    env.reset()
    real = world.start

    def broken(spec: Any) -> Any:
        if spec.role == "grader":
            raise MachineError("no space")
        return real(spec)

    monkeypatch.setattr(world, "start", broken)
    with pytest.raises(GradingError):
        env.step(SUBMIT)
    record = the_record(tmp_path)
    assert record.score is None
    assert "no space" in (record.error or "")
    assert "a submission was taken but not graded" in record.exceptions
    assert "submission-1/0" in record.artifacts


def test_a_limit_of_the_models_loop_is_in_the_record(env, tmp_path: Path) -> None:
    episode = rollout(env, FunctionAgent(lambda *_: BASH), limits=RolloutLimits(max_turns=2))
    record = the_record(tmp_path)
    assert (episode.status, episode.reward, episode.score) == ("limit", 0.0, 0.0)
    assert (record.limit, record.score, record.steps) == ("turns", 0.0, [])
    assert "the limit of turns ended the episode before it was handed in" in record.exceptions
    assert episode.record == record.model_dump(mode="json")


def test_a_failure_of_the_model_is_in_the_record_and_is_no_zero(env, tmp_path: Path) -> None:
    def fail(messages: Any, tools: Any) -> Any:
        raise ConfigError("the price of this model is not known")

    episode = rollout(env, FunctionAgent(fail))
    record = the_record(tmp_path)
    assert (episode.status, episode.reward, record.score) == ("error", None, None)
    assert record.error == "ConfigError: the price of this model is not known"
    assert episode.record == record.model_dump(mode="json")


def test_asking_again_after_the_end_writes_nothing_anew(env, tmp_path: Path) -> None:
    env.reset()
    env.step(SUBMIT)
    (path,) = tmp_path.glob("*/record.json")
    before = path.stat()
    info = env.step(BASH)[4]
    after = path.stat()
    assert (before.st_ino, before.st_mtime_ns) == (after.st_ino, after.st_mtime_ns)
    assert info["record"] == the_record(tmp_path).model_dump(mode="json")


def test_an_episode_that_goes_on_shows_as_unfinished(env, tmp_path: Path) -> None:
    env.reset()
    env.step(BASH)
    assert len(unfinished(tmp_path)) == 1
    env.close()
    assert unfinished(tmp_path) == []


def sealed_record(env: Any, tmp_path: Path) -> Path:
    env.reset()
    env.step(SUBMIT)
    return next(tmp_path.glob("*/record.json"))


def test_every_byte_of_a_record_counts(env, tmp_path: Path) -> None:
    path = sealed_record(env, tmp_path)
    whole = path.read_bytes()
    assert broken_seal(read_record(path), None) is None
    for at in range(len(whole)):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
        try:
            wrong = broken_seal(read_record(path), None)
        except EvidenceError:
            continue
        assert wrong is not None, whole[max(at - 40, 0) : at + 40]


def test_who_has_no_key_can_not_seal_a_changed_record(world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(KEY_VARIABLE, KEY)
    with gym.make("karotte/q3-revenue", run_dir=str(tmp_path)) as env:
        path = sealed_record(env, tmp_path)
    record = read_record(path)
    assert broken_seal(record, KEY.encode()) is None
    forged = sealing.sealed(record.model_copy(update={"score": 0.5}), None)
    assert broken_seal(forged, None) is None  # without the key the forgery looks right
    assert "not signed" in (broken_seal(forged, KEY.encode()) or "")
    assert "not signed with the key" in (broken_seal(sealing.sealed(forged, b"another key"), KEY.encode()) or "")
    assert KEY not in path.read_text()


def test_a_key_that_can_be_guessed_is_refused_before_anything_starts(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(KEY_VARIABLE, "short")
    with gym.make("karotte/q3-revenue", run_dir=str(tmp_path)) as env, pytest.raises(ConfigError, match="16 random"):
        env.reset()
    assert world.machines == []


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"", "no completion record"),
        (b"[]", "no JSON object"),
        (b"[" * 200_000, "no completion record"),
        (b'{"format": 1}', "its format is 1"),
        (b'{"format": 2, "format": 2}', "a key comes twice"),
        (b'{"format": 2, "seed": NaN}', "NaN"),
        (b'{"format": 2}', "task_id"),
        (b"\xff\xfe", "no completion record"),
        (json_text({"format": 2, "task_id": "x", "more": 1}).encode(), "run_id"),
    ],
)
def test_what_is_no_record_is_refused_in_a_sentence(tmp_path: Path, content: bytes, sentence: str) -> None:
    (tmp_path / "record.json").write_bytes(content)
    with pytest.raises(EvidenceError, match=sentence):
        read_record(tmp_path / "record.json")


def test_a_giant_and_what_is_no_plain_file_are_not_read(env, tmp_path: Path) -> None:
    path = sealed_record(env, tmp_path)
    giant, link, pipe = tmp_path / "giant", tmp_path / "link", tmp_path / "pipe"
    with giant.open("wb") as stream:
        stream.truncate(sealing.MAX_RECORD_BYTES + 1)
    link.symlink_to(path)
    os.mkfifo(pipe)
    assert json.loads(link.read_text())["score"] == 1.0  # following it would have worked
    for each in (giant, link, pipe, tmp_path):
        with pytest.raises(EvidenceError, match=each.name):
            read_record(each)
