"""Steps in a real machine: files stay and processes do not, time cuts a command, hooks see what is there."""

from __future__ import annotations

import time
from typing import Any

import pytest
from karotte_gym.wrappers import CustodyGrading, MisbehaviorToZero

from karotte_gym import Evidence, Judge, ProtectedStore, Sandbox, Scoring, Step, StepLimits, Task
from karotte_gym.env import KarotteEnv

pytestmark = [pytest.mark.machine, pytest.mark.timeout(600)]
SUBMIT = {"name": "submit", "arguments": {}}


def bash(command: str, **more: Any) -> dict[str, Any]:
    return {"name": "bash", "arguments": {"command": command, **more}}


class Stored(Judge):
    """Scores what the hook has measured, of a file that is not handed in."""

    def judge(self, evidence: Evidence) -> Scoring:
        return Scoring(evidence.store["measured"] / 100, {"handed_in": [file.size for file in evidence.submission.files]})


def measure(sandbox: Sandbox, store: ProtectedStore) -> None:
    assert sandbox.run(["/usr/bin/pgrep", "-u", "student"], user="root").exit_code == 1, "nothing of the student's runs"
    store["measured"] = int(sandbox.get_file("/workdir/number", max_bytes=10))


class Timed(Task):
    id = "timed"
    steps = (
        Step("Write a number.", ("/workdir/number",), Stored(), pre_scoring_hook=measure),
        Step("Be quick.", (), Stored(), limits=StepLimits(time_s=6, show_remaining_time=True)),
    )


def test_files_stay_processes_go_and_a_command_is_cut_to_the_time_of_its_step() -> None:
    with MisbehaviorToZero(CustodyGrading(KarotteEnv(f"{__name__}:Timed"))) as env:
        env.reset()
        env.step(bash("echo 42 > number; (setsid sleep 1000 > /dev/null 2>&1 &); cd /tmp; export LEFT=1"))
        obs, reward, terminated, truncated, _ = env.step(SUBMIT)
        assert (obs["content"], reward, terminated, truncated) == ("Be quick.", 0.0, False, False)
        obs, *_ = env.step(bash("cat /workdir/number; echo $LEFT; pwd; pgrep sleep"))
        assert obs["content"].startswith("42\n\n/workdir\n") and "s left for this step]" in obs["content"]
        started = time.monotonic()
        obs, reward, terminated, truncated, info = env.step(bash("echo begun; sleep 500", timeout=400))
        assert time.monotonic() - started < 60
    assert "begun" in obs["content"] and "timed out" in obs["content"] and "limit of time (6 s)" in obs["content"]
    assert (reward, terminated, truncated, info["score"]) == (0.42, False, True, 0.42)
    assert [step["submission"] for step in info["record"]["steps"]][1] == []
    assert any("step 2 ended at its limit of time (6 s)" in line for line in info["record"]["exceptions"])


def test_what_a_hook_does_not_find_is_the_students_doing() -> None:
    with MisbehaviorToZero(CustodyGrading(KarotteEnv(f"{__name__}:Timed"))) as env:
        env.reset()
        _, reward, terminated, _, info = env.step(SUBMIT)
    assert (reward, terminated) == (0.0, True) and "/workdir/number" in info["misbehavior"]
