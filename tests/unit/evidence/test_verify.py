"""`verify` names what differs from a record, and neither follows a link nor is held up by what it finds."""

# ruff: noqa: ARG001 - `world` puts machines in memory in place
from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import gymnasium as gym
import pytest
from memory_sandbox import World
from verifying import SUBMIT, cli, flip, forge, wrong

from karotte_gym import StudentMisbehavior
from karotte_gym.errors import EvidenceError
from karotte_gym.evidence import sealing
from karotte_gym.evidence.sealing import KEY_VARIABLE, read_record
from karotte_gym.evidence.stored_submission import stored_submission
from karotte_gym.evidence.verify import verify
from karotte_gym.record import StepRecord
from karotte_gym.registration import load_task
from karotte_gym.run_files import write_json
from karotte_gym.sandbox.contract import Submission


def test_what_was_not_touched_is_as_recorded(directory: Path) -> None:
    found = verify(directory, None)
    assert wrong(found) == []
    looked_at = {finding.artifact for finding in found.findings}
    assert looked_at == {"seal", "transcript.jsonl", "submission-1/0", "submission of step 1"}
    assert cli(directory)[0] == cli(directory / "record.json")[0] == cli(directory.parent)[0] == 0


@pytest.mark.parametrize("name", ["transcript.jsonl", "submission-1/0", "record.json"])
def test_one_changed_byte_is_named(directory: Path, name: str) -> None:
    before = (directory / name).stat().st_size
    flip(directory / name)
    assert (directory / name).stat().st_size == before
    assert wrong(verify(directory, None)) == [(name, "differs")]
    code, found = cli(directory)
    assert (code, found["ok"]) == (1, False)


def test_a_changed_score_breaks_the_seal(directory: Path) -> None:
    values = json.loads((directory / "record.json").read_text())
    write_json(directory / "record.json", {**values, "score": 0.75})
    assert wrong(verify(directory, None)) == [("seal", "differs")]


def test_a_seal_made_anew_is_noticed_with_the_key_only(world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(KEY_VARIABLE, key := "sixteen letters and more")
    with gym.make("karotte/q3-revenue", run_dir=str(tmp_path)) as env:
        env.reset()
        env.step(SUBMIT)
    (directory,) = tmp_path.iterdir()
    assert cli(directory)[0] == 0
    record = read_record(directory / "record.json")
    forged = sealing.sealed(record.model_copy(update={"score": 0.5}), None)
    write_json(directory / "record.json", forged.model_dump(mode="json"))
    assert wrong(verify(directory, None)) == []  # what a seal without a key can not show
    assert wrong(verify(directory, key.encode())) == [("seal", "differs")]
    assert cli(directory)[0] == 1


def test_a_missing_file_an_added_one_and_a_longer_one_are_told_apart(directory: Path) -> None:
    (directory / "submission-1" / "0").rename(directory / "submission-1" / "1")
    with (directory / "transcript.jsonl").open("ab") as stream:
        stream.write(b"{}\n")
    found = verify(directory, None)
    assert wrong(found) == [
        ("transcript.jsonl", "differs"),
        ("submission-1/0", "missing"),
        ("submission-1/1", "additional"),
    ]


def test_directories_that_were_added_are_named_and_those_of_empty_submissions_are_not(directory: Path) -> None:
    for name in ("submission-2", "submission-1/within", "chain/" + "/".join("d" * 500)):
        (directory / name).mkdir(parents=True)
    assert wrong(verify(directory, None)) == [
        ("chain/" + "d/" * 500, "additional"),
        ("submission-1/within/", "additional"),
        ("submission-2/", "additional"),
    ]


def test_an_added_empty_submission_is_taken_for_one_only_where_the_episode_ended_by_a_fault(
    world: World, tmp_path: Path
) -> None:
    world.refusal = StudentMisbehavior("custody", "a link")
    with gym.make("karotte/q3-revenue", run_dir=str(tmp_path)) as env:
        env.reset(seed=1)
        env.step(SUBMIT)
    (directory,) = tmp_path.iterdir()
    assert (directory / "submission-1").is_dir()
    assert wrong(verify(directory, None)) == []
    (directory / "submission-2").mkdir()
    assert wrong(verify(directory, None)) == [("submission-2/", "additional")]


@pytest.mark.parametrize("name", ["transcript.jsonl", "submission-1/0"])
def test_a_link_is_not_followed_even_to_the_same_bytes(directory: Path, tmp_path: Path, name: str) -> None:
    shutil.copy(directory / name, tmp_path / "elsewhere")
    (directory / name).unlink()
    (directory / name).symlink_to(tmp_path / "elsewhere")
    assert (directory / name).read_bytes() == (tmp_path / "elsewhere").read_bytes()  # following it would find it right
    assert wrong(verify(directory, None)) == [(name, "differs")]


def test_a_linked_folder_is_not_followed(directory: Path, tmp_path: Path) -> None:
    (directory / "submission-1").rename(tmp_path / "moved")
    (directory / "submission-1").symlink_to(tmp_path / "moved")
    assert (directory / "submission-1/0").is_file()
    assert wrong(verify(directory, None)) == [("submission-1/0", "differs"), ("submission-1", "additional")]


def test_a_pipe_a_socket_and_a_link_to_a_secret_hold_nothing_up_and_tell_nothing(directory: Path) -> None:
    os.mkfifo(directory / "pipe")
    (directory / "secret").symlink_to("/etc/shadow")
    (directory / "loop").symlink_to(directory)
    (directory / "transcript.jsonl").unlink()
    os.mkfifo(directory / "transcript.jsonl")
    assert wrong(verify(directory, None)) == [
        ("transcript.jsonl", "differs"),
        ("loop", "additional"),
        ("pipe", "additional"),
        ("secret", "additional"),
    ]


@pytest.mark.parametrize("name", ["../../../etc/passwd", "/etc/passwd", "a//b", ".", "a\0b"])
def test_a_name_that_leads_out_of_the_directory_is_refused(directory: Path, name: str) -> None:
    artifacts = json.loads((directory / "record.json").read_text())["artifacts"]
    forge(directory, artifacts={**artifacts, name: artifacts["transcript.jsonl"]})
    assert wrong(verify(directory, None)) == [(name, "differs")]


def test_a_listing_that_is_not_what_was_handed_in_is_found_though_sealed(directory: Path) -> None:
    record = (directory / "record.json").read_bytes()
    changes: tuple[dict[str, Any], ...] = ({"submission": []}, {"submission_sha256": "0" * 64})
    for change in changes:
        (directory / "record.json").write_bytes(record)
        forge(directory, change)
        assert ("submission of step 1", "differs") in wrong(verify(directory, None))


FORGED = [
    ("/../grade/grade.py", "does not ask for"),
    ("/workdir/data/../../../grade/grade.py", "does not ask for"),
    ("/workdir/data/answer.txt/../../../../grade/grade.py", "not normalised"),
    ("/workdir/data/answer.txt/x", "without its directory"),
    ("/workdir/other.txt", "does not ask for"),
    ("/workdir/data/answer.txt", "an entry twice"),
]


@pytest.mark.parametrize(("path", "sentence"), FORGED)
def test_a_forged_listing_can_not_put_a_grader_of_its_own_into_the_machine(
    directory: Path, tmp_path: Path, path: str, sentence: str
) -> None:
    record = read_record(directory / "record.json")
    (step,) = record.steps
    (entry,) = step.submission
    forged = step.model_copy(update={"submission": [entry, entry.model_copy(update={"path": path})]})
    assert stored(directory, step, tmp_path / "honest").files[0].sha256 == entry.sha256
    with pytest.raises(EvidenceError, match=sentence):
        stored(directory, forged, tmp_path / "forged")
    assert not (tmp_path / "forged").exists()


def stored(directory: Path, step: StepRecord, into: Path) -> Submission:
    task = load_task("q3-revenue")
    return stored_submission(directory, step, into, task.steps[0].submission_paths, task.submission_limits)


def test_a_record_in_another_episodes_directory_is_found(directory: Path) -> None:
    other = directory.rename(directory.with_name("20260101T000000-q3-revenue-00000000"))
    assert wrong(verify(other, None)) == [("record.json", "differs")]


@pytest.mark.parametrize("content", [b"", b"{}", b"[" * 100_000, b"\x00" * 100])
def test_a_malformed_record_is_a_finding_and_hides_no_other_episode(directory: Path, content: bytes) -> None:
    shutil.copytree(directory, directory.with_name("zzz"))
    (directory.with_name("zzz") / "record.json").write_bytes(content)
    code, found = cli(directory.parent)
    assert code == 1
    assert [each["ok"] for each in found["episodes"]] == [True, False]
    assert "no completion record" in found["episodes"][1]["findings"][0]["sentence"]


def test_a_task_that_has_changed_since_is_named(directory: Path) -> None:
    (step,) = read_record(directory / "record.json").steps
    for key in ("code_sha256", "data_sha256", "judge", "timeout_s", "memory_bytes"):
        forge(directory, {"criterion": {**step.criterion, key: "another"}})
        code, found = cli(directory)
        (finding,) = [each for each in found["episodes"][0]["findings"] if each["verdict"] == "differs"]
        assert (code, finding["artifact"]) == (1, "step 1")
        assert f"the task has changed since: {key}" in finding["sentence"]


def test_a_record_of_before_limits_and_images_were_noted_is_of_a_task_that_has_changed(directory: Path) -> None:
    (step,) = read_record(directory / "record.json").steps
    old = {key: value for key, value in step.criterion.items() if key not in ("timeout_s", "memory_bytes")}
    forge(directory, {"criterion": {**old, "image_sha256": "of an image of its own"}})
    (finding,) = [each for each in cli(directory)[1]["episodes"][0]["findings"] if each["verdict"] == "differs"]
    assert finding["sentence"] == "the task has changed since: image_sha256, memory_bytes, timeout_s of its judge"


def test_what_is_compared_with_the_installed_task_is_said_with_what_is_not(directory: Path) -> None:
    (finding,) = [each for each in cli(directory)[1]["episodes"][0]["findings"] if each["artifact"] == "step 1"]
    assert finding["sentence"].startswith("judged by what is installed; not compared: versions, hardware, and code from")


def test_a_task_that_is_not_installed_is_not_checked_and_says_so(directory: Path) -> None:
    forge(directory, task_id="no-such-task")
    code, found = cli(directory)
    (finding,) = [each for each in found["episodes"][0]["findings"] if each["verdict"] == "not checked"]
    assert (code, "give --project or --task" in finding["sentence"]) == (0, True)
