"""`verify` names what differs from a record, and neither follows a link nor is held up by what it finds."""

# ruff: noqa: ARG001 - `world` puts machines in memory in place
from __future__ import annotations

import contextlib
import json
import os
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

from karotte_gym.agents.function import FunctionAgent
from karotte_gym.agents.rollout import rollout
from karotte_gym.cli.main import app
from karotte_gym.errors import ConfigError, EvidenceError
from karotte_gym.evidence import listing, sealing
from karotte_gym.evidence.sealing import KEY_VARIABLE, read_record
from karotte_gym.evidence.stored_submission import stored_submission
from karotte_gym.evidence.verify import Verified, verify
from karotte_gym.record import StepRecord
from karotte_gym.registration import load_task
from karotte_gym.report import Store
from karotte_gym.runs.directory import RunDirectory
from karotte_gym.sandbox.contract import Submission
from karotte_gym.scoring import StudentMisbehavior
from karotte_gym.transcript import write_json

BASH = {"name": "bash", "arguments": {"command": "true"}}
SUBMIT = {"name": "submit", "arguments": {"message": "done"}}


@pytest.fixture
def directory(world: World, tmp_path: Path) -> Path:
    """Of an episode that was played and scored."""
    with gym.make("karotte/q3-revenue", run_dir=str(tmp_path / "runs")) as env:
        env.reset(seed=1)
        env.step(BASH)
        env.step(SUBMIT)
    return next((tmp_path / "runs").iterdir())


def wrong(found: Verified) -> list[tuple[str, str]]:
    return [(finding.artifact, finding.verdict) for finding in found.findings if not finding.ok]


def cli(*arguments: object) -> tuple[int, Any]:
    done = CliRunner().invoke(app, ["verify", *map(str, arguments), "--json"])
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return done.exit_code, json.loads(done.stdout)


def flip(path: Path, at: int = -2) -> None:
    data = bytearray(path.read_bytes())
    data[at] ^= 1
    path.write_bytes(data)


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
    record = read_record(directory / "record.json")
    artifacts = {**record.artifacts, name: record.artifacts["transcript.jsonl"]}
    forged = sealing.sealed(record.model_copy(update={"artifacts": artifacts}), None)
    write_json(directory / "record.json", forged.model_dump(mode="json"))
    assert wrong(verify(directory, None)) == [(name, "differs")]


def test_a_listing_that_is_not_what_was_handed_in_is_found_though_sealed(directory: Path) -> None:
    record = read_record(directory / "record.json")
    (step,) = record.steps
    for change in ({"submission": []}, {"submission_sha256": "0" * 64}):
        forged = record.model_copy(update={"steps": [step.model_copy(update=change)]})
        write_json(directory / "record.json", sealing.sealed(forged, None).model_dump(mode="json"))
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
def test_a_malformed_record_is_a_finding_and_hides_no_other_episode(directory: Path, tmp_path: Path, content: bytes) -> None:
    shutil.copytree(directory, directory.with_name("zzz"))
    (directory.with_name("zzz") / "record.json").write_bytes(content)
    code, found = cli(directory.parent)
    assert code == 1
    assert [each["ok"] for each in found["episodes"]] == [True, False]
    assert "no completion record" in found["episodes"][1]["findings"][0]["sentence"]


def test_a_directory_of_absurdly_many_files_is_refused(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listing, "MAX_NAMES", 3)
    (finding,) = verify(directory, None).findings
    assert "more than 3 entries" in finding.sentence


def test_a_task_that_has_changed_since_is_named(directory: Path, tmp_path: Path) -> None:
    record = read_record(directory / "record.json")
    (step,) = record.steps
    for key in ("code_sha256", "data_sha256", "judge"):
        criterion = {**step.criterion, key: "another"}
        forged = record.model_copy(update={"steps": [step.model_copy(update={"criterion": criterion})]})
        write_json(directory / "record.json", sealing.sealed(forged, None).model_dump(mode="json"))
        code, found = cli(directory)
        (finding,) = [each for each in found["episodes"][0]["findings"] if each["verdict"] == "differs"]
        assert (code, finding["artifact"]) == (1, "step 1")
        assert f"the task has changed since: {key}" in finding["sentence"]


def test_a_task_that_is_not_installed_is_not_checked_and_says_so(directory: Path) -> None:
    record = read_record(directory / "record.json")
    forged = sealing.sealed(record.model_copy(update={"task_id": "no-such-task"}), None)
    write_json(directory / "record.json", forged.model_dump(mode="json"))
    code, found = cli(directory)
    (finding,) = [each for each in found["episodes"][0]["findings"] if each["verdict"] == "not checked"]
    assert (code, "give --project or --task" in finding["sentence"]) == (0, True)


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


def forge(directory: Path, step: dict[str, Any] | None = None, **changes: object) -> None:
    """Change the record, and the first of its steps, and seal it again without a key."""
    path = directory / "record.json"
    values = json.loads(path.read_text())
    values["steps"][0].update(step or {})
    values.update(changes)
    with contextlib.suppress(EvidenceError):  # what is no record can't be sealed, and is none with any seal
        write_json(path, values)
        values["seal"] = sealing._seal(read_record(path), None).model_dump()
    write_json(path, values)


@pytest.fixture
def unearned(world: World, tmp_path: Path) -> Path:
    """Of an honest episode that earned 0."""
    world.result = b'{"score": 0.0}'
    with gym.make("karotte/q3-revenue", run_dir=str(tmp_path / "runs")) as env:
        env.reset(seed=1)
        env.step(SUBMIT)
    return next((tmp_path / "runs").iterdir())


TOTALS = [
    ({}, {"score": 1.0}, "that of the last step that was scored is 0.0"),
    ({}, {"score": 0.5, "task_config": '{"generated": true}'}, "that of the last step that was scored is 0.0"),
    ({}, {"score": 1.0, "steps": []}, "its score is 1.0 and would be none, since no step has one"),
    ({"score": None}, {"score": 1.0}, "its score is 1.0 and would be none, since no step has one"),
    ({}, {"score": None}, "its score is none and would be one, since its steps have"),
    ({"score": 1.0}, {"score": 1.0, "misbehavior": "a link"}, "its score is 1.0 and would be 0"),
    ({"score": 1.0}, {"score": 1.0, "limit": "turns"}, "its score is 1.0 and would be 0"),
    ({"score": 1.0}, {"score": 1.0, "error": "x"}, "its score is 1.0 and would be none, since it names an error"),
    ({}, {"score": True}, "no completion record: score"),
    ({}, {"score": 1e308}, "no completion record: score"),
    ({}, {"score": -0.5}, "no completion record: score"),
    ({"score": True}, {"score": 1.0}, "no completion record: steps.0.score"),
    ({}, {"calls": True}, "no completion record: calls"),
]


@pytest.mark.parametrize("options", [[], ["--regrade"]])
@pytest.mark.parametrize(("step", "changes", "sentence"), TOTALS)
def test_a_score_that_does_not_follow_from_the_steps_is_found_though_sealed(
    unearned: Path, step: dict[str, Any], changes: dict[str, Any], sentence: str, options: list[str]
) -> None:
    assert cli(unearned, *options)[0] == 0
    forge(unearned, step, **changes)
    code, found = cli(unearned, *options)
    findings = found["episodes"][0]["findings"]
    assert code == 1 and any(sentence in each["sentence"] for each in findings if each["verdict"] == "differs"), findings


def test_graded_again_a_forged_step_and_the_total_made_of_it_are_both_named(unearned: Path) -> None:
    forge(unearned, {"score": 1.0}, score=1.0)
    assert cli(unearned)[0] == 0  # what the record says of itself fits
    code, found = cli(unearned, "--regrade")
    assert (code, [each["artifact"] for each in found["episodes"][0]["findings"] if each["verdict"] == "differs"]) == (
        1,
        ["score of step 1", "score"],
    )


def test_a_made_up_digest_of_the_store_keeps_no_score_from_being_graded_again(unearned: Path) -> None:
    forge(unearned, {"score": 1.0, "store_sha256": "0" * 64}, score=1.0)
    code, found = cli(unearned, "--regrade")
    assert code == 1 and "gives another store now" in str(found)


@pytest.fixture
def combined(world: World, tmp_path: Path) -> Path:
    """Of a task of two steps whose score is the product of theirs, half a point each."""
    world.result = b'{"score": 0.5}'
    with gym.make("karotte/incident-report", run_dir=str(tmp_path / "runs")) as env:
        env.reset(seed=1)
        env.step(SUBMIT)
        assert env.step(SUBMIT)[1] == 0.25
    return next((tmp_path / "runs").iterdir())


def test_a_total_of_the_tasks_own_is_made_again_by_regrade_alone(combined: Path) -> None:
    code, found = cli(combined)
    (unsure,) = [each for each in found["episodes"][0]["findings"] if each["verdict"] == "not checked"]
    assert (code, unsure["artifact"], "which --regrade repeats" in unsure["sentence"]) == (0, "score", True)
    code, found = cli(combined, "--regrade")
    assert (code, {"artifact": "score", "verdict": "ok", "sentence": "0.25 again"} in found["episodes"][0]["findings"]) == (
        0,
        True,
    )
    forge(combined, score=0.5)
    assert cli(combined)[0] == 0
    code, found = cli(combined, "--regrade")
    assert (code, found["episodes"][0]["findings"][-1]["sentence"]) == (1, "the task makes of its steps 0.25, recorded 0.5")


def test_metadata_on_which_the_tasks_own_sum_fails_is_a_finding(combined: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(self: object, scorings: object) -> float:
        raise KeyError("points")

    monkeypatch.setattr(load_task("incident-report"), "combine_scores", broken)
    code, found = cli(combined, "--regrade")
    assert (code, "combine_scores fails with the steps' scores" in found["episodes"][0]["findings"][-1]["sentence"]) == (
        1,
        True,
    )


def test_what_misbehaviour_limits_and_faults_leave_is_consistent(world: World, tmp_path: Path) -> None:
    with gym.make("karotte/incident-report", run_dir=str(tmp_path)) as env:
        for end in ("custody", "limit", "operator", "given up", "nothing"):
            env.reset(seed=1)
            if end != "nothing":
                env.step(SUBMIT)  # a step that has a score, whatever comes of the episode
            if end == "custody":
                world.refusal = StudentMisbehavior("custody", "a link")
                assert env.step(SUBMIT)[1] == 0.0
                world.refusal = None
            elif end in ("limit", "operator"):
                env.unwrapped.break_off(end, limit="turns" if end == "limit" else None)  # type: ignore[attr-defined]
    code, found = cli(tmp_path)
    assert (code, len(found["episodes"])) == (0, 5), found
    assert sorted(str(each["score"]) for each in found["episodes"]) == ["0.0", "0.0", "0.0", "None", "None"]


def test_of_a_giant_no_byte_is_read(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    os.truncate(directory / "transcript.jsonl", 4 * 1024**4)  # hours of hashing, and not one block of a disk
    (finding,) = [each for each in verify(directory, None).findings if not each.ok]
    assert (finding.artifact, finding.sentence.split(",")[0]) == ("transcript.jsonl", "it has 4398046511104 bytes")


def test_of_giants_that_the_record_names_no_more_is_read_than_an_episode_may_leave(directory: Path) -> None:
    giants = {}
    for number in range(3):
        with (directory / f"giant{number}").open("wb") as stream:
            stream.truncate(4 * 1024**4)
        giants[f"giant{number}"] = {"sha256": "0" * 64, "size": 4 * 1024**4}
    artifacts = json.loads((directory / "record.json").read_text())["artifacts"]
    forge(directory, artifacts={**giants, **artifacts})
    found = {each.artifact: each.verdict for each in verify(directory, None).findings}
    assert {found[name] for name in giants} == {"not checked"} and found["transcript.jsonl"] == "ok"
    os.truncate(directory / "giant1", 5)
    assert wrong(verify(directory, None)) == [("giant1", "differs")]


def test_a_record_of_absurdly_many_artifacts_is_refused(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("karotte_gym.evidence.verify.MAX_NAMES", 1)
    (finding,) = verify(directory, None).findings
    assert (finding.verdict, "names 2 artifacts" in finding.sentence) == ("differs", True)


def test_of_very_many_findings_the_ends_are_printed_and_how_many_more_there_are(directory: Path) -> None:
    for number in range(1000):
        (directory / f"z{number:04}").touch()
    (directory / "submission-1" / "0").unlink()
    done = CliRunner().invoke(app, ["verify", str(directory)])
    assert done.exit_code == 1 and done.stdout.count("additional") + done.stdout.count("submission-1/0") == 200
    assert "801 more that are wrong" in done.stdout.replace("\n", " ") or "801 more" in done.stdout
    assert "submission-1/0" in done.stdout and "z0999" in done.stdout
    assert len(cli(directory)[1]["episodes"][0]["findings"]) > 1000


def test_a_name_of_megabytes_is_not_drawn(directory: Path) -> None:
    artifacts = json.loads((directory / "record.json").read_text())["artifacts"]
    forge(directory, artifacts={**artifacts, "x" * 3_000_000: artifacts["transcript.jsonl"]})
    done = CliRunner().invoke(app, ["verify", str(directory)])
    assert done.exit_code == 1 and len(done.stdout) < 200_000


def test_directories_that_were_added_are_named_and_those_of_empty_submissions_are_not(directory: Path) -> None:
    for name in ("submission-2", "submission-3", "submission-1/within", "chain/" + "/".join("d" * 500)):
        (directory / name).mkdir(parents=True)
    assert wrong(verify(directory, None)) == [
        ("chain/" + "d/" * 500, "additional"),
        ("submission-1/within/", "additional"),
        ("submission-3/", "additional"),
    ]


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
    arguments = [sys.executable, "-c", KILLED, str(tmp_path / "runs"), str(Path(__file__).parent)]
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
