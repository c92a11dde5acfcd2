"""The checks that play, before machines in memory whose grader pays for everything or fails on everything."""

from __future__ import annotations

from typing import Any

import pytest

from karotte_gym.errors import MachineError
from karotte_gym.registration import load_task
from karotte_gym.sandbox.contract import CommandResult
from karotte_gym.validate import Finding, Verdict, validate

DONE = CommandResult(output=b"", exit_code=0, timed_out=False, cut_bytes=0, duration_s=0.001)
IDLE = [{"name": "bash", "arguments": {"command": "true"}}]
PLAYED = ("solution-pays", "nothing-pays-nothing", "same-score", "huge-submission", "broken-submissions", "wrong-forms")


@pytest.fixture(autouse=True)
def _unpacks(world: Any, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: ARG001
    """A directory that was handed in is unpacked by a command, which machines in memory otherwise refuse."""
    monkeypatch.setattr("memory_sandbox.MemorySandbox.run", lambda *_, **__: DONE)


def verdicts(findings: list[Finding]) -> dict[str, set[Verdict]]:
    return {check: {finding.verdict for finding in findings if finding.check == check} for check in PLAYED}


def test_a_grader_that_pays_for_everything_fails_where_nothing_may_be_paid(world: Any) -> None:
    findings = validate(load_task("q3-revenue"), only=PLAYED, quick=True)
    found = verdicts(findings)
    assert found["solution-pays"] == found["same-score"] == {Verdict.OK}
    assert all(found[check] == {Verdict.FAIL} for check in ("nothing-pays-nothing", "huge-submission", "broken-submissions"))
    assert found["wrong-forms"] == {Verdict.FAIL, Verdict.WARN}  # other encodings may be meant, other amounts are a hole
    assert "a directory in place of a file scores 1" in [finding.found for finding in findings]
    assert len(world.of("grader")) > len(PLAYED)


def test_a_form_that_the_task_accepts_is_no_finding(world: Any, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: ARG001
    task = load_task("q3-revenue")
    monkeypatch.setattr(task, "accepted_forms", ("twice", "utf-16"))
    said = " ".join(finding.found for finding in validate(task, only=["wrong-forms"]))
    assert "among-noise" in said
    assert "as twice" not in said
    assert "as utf-16" not in said


def test_a_grader_that_fails_is_a_finding_though_the_score_is_0(world: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    failed = CommandResult(b"Traceback\nValueError: what is this", 1, False, 0, 0.1)
    monkeypatch.setattr("memory_sandbox.DONE", failed)
    world.result = b""
    findings = validate(load_task("q3-revenue"), only=["solution-pays", "broken-submissions"], quick=True)
    assert {finding.verdict for finding in findings} == {Verdict.FAIL}
    assert any("the grader fails on empty" in finding.found and "ValueError" in finding.found for finding in findings)


def test_a_host_without_machines_raises_and_says_nothing_about_the_task(world: Any) -> None:
    world.start_error = MachineError("no emulator")
    with pytest.raises(MachineError, match="no emulator"):
        validate(load_task("q3-revenue"), only=["same-score"])


def test_a_solution_that_hands_nothing_in_leaves_the_rest_unchecked(world: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "karotte_gym.validate.bench.solution_of", lambda _: [{"name": "bash", "arguments": {"command": "true"}}]
    )
    findings = validate(load_task("q3-revenue"), only=["solution-pays", "same-score"])
    assert [finding.verdict for finding in findings] == [Verdict.FAIL, Verdict.NOT_CHECKED]
    assert len(world.of("student")) == 1  # one try is enough for all checks
