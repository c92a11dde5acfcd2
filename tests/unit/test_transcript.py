"""A transcript is bounded, whole on disk, and never written over."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from karotte_gym import transcript
from karotte_gym.transcript import Event, Transcript, bounded, new_run_directory, write_json


@given(st.text(max_size=400), st.integers(0, 300))
def test_bounded_keeps_short_texts_and_never_exceeds_its_limit(text: str, limit: int) -> None:
    kept = bounded(text, limit)
    assert len(kept) <= limit
    if len(text) <= limit:
        assert kept == text


def test_bounded_keeps_head_and_tail_and_says_how_much_is_missing() -> None:
    kept = bounded("H" * 500 + "T" * 500, 200)
    assert kept.startswith("HHH")
    assert kept.endswith("TTT")
    assert "800 characters left out" in kept


def test_events_beyond_the_bound_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transcript, "MAX_EVENTS", 3)
    kept = Transcript(task_id="t", run_id="r", system_prompt="")
    for number in range(5):
        kept.add(Event(step=1, tool="bash", arguments=str(number), result=""))
    assert [event.arguments for event in kept.events] == ["0", "1", "2"]
    assert kept.events_left_out == 2


def test_a_run_directory_is_never_taken_twice(tmp_path: Path) -> None:
    first = new_run_directory(tmp_path / "runs", "one")
    (first / "transcript.json").write_text("evidence")
    with pytest.raises(FileExistsError):
        new_run_directory(tmp_path / "runs", "one")
    assert (first / "transcript.json").read_text() == "evidence"


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
