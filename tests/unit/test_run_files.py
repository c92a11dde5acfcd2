"""What a run leaves is written whole or not at all, and never over what another run left."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from karotte_gym.run_files import new_run_directory, write_json


def test_a_run_directory_is_never_taken_twice(tmp_path: Path) -> None:
    first = new_run_directory(tmp_path / "runs", "one")
    (first / "transcript.jsonl").write_text("evidence")
    with pytest.raises(FileExistsError):
        new_run_directory(tmp_path / "runs", "one")
    assert (first / "transcript.jsonl").read_text() == "evidence"


def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    target = tmp_path / "record.json"
    write_json(target, {"a": 1})
    with pytest.raises(TypeError):
        write_json(target, {"a": object()})
    assert json.loads(target.read_text()) == {"a": 1}
    assert [path.name for path in tmp_path.iterdir()] == ["record.json"]


def test_what_no_encoding_holds_is_still_written(tmp_path: Path) -> None:
    write_json(tmp_path / "x.json", {"a": "\ud83d \x00 \x1b[31m"})
    assert json.loads((tmp_path / "x.json").read_text())["a"] == "\ud83d \x00 \x1b[31m"
