"""A run directory of somebody else's may be of any size; `verify` reads and keeps no more than an episode of ours may leave."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from typer.testing import CliRunner
from verifying import cli, forge, wrong

from karotte_gym.cli.main import app
from karotte_gym.evidence import listing
from karotte_gym.evidence.verify import verify


def test_a_directory_of_absurdly_many_files_is_refused(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listing, "MAX_NAMES", 3)
    (finding,) = verify(directory, None).findings
    assert "more than 3 entries" in finding.sentence


def test_of_a_giant_no_byte_is_read(directory: Path) -> None:
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
