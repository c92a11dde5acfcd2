"""A transcript is bounded, on disk call by call whatever ends the process, and never written over."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from karotte_gym import transcript
from karotte_gym.errors import EvidenceError
from karotte_gym.evidence import journal
from karotte_gym.evidence.journal import Journal
from karotte_gym.transcript import Event, Transcript


def event(arguments: str = "{}", result: str = "") -> Event:
    return Event(step=1, tool="bash", arguments=arguments, result=result)


def written(directory: Path) -> tuple[Transcript, Journal]:
    kept = Transcript(task_id="t", run_id="r", system_prompt="be good")
    file = Journal(directory / "transcript.jsonl")
    kept.keep_with(file.append)
    return kept, file


def test_events_beyond_the_bound_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transcript, "MAX_EVENTS", 3)
    kept = Transcript(task_id="t", run_id="r", system_prompt="")
    for number in range(5):
        kept.add(event(str(number)))
    assert [each.arguments for each in kept.events] == ["0", "1", "2"]
    assert kept.events_left_out == 2


def test_a_student_that_talks_without_end_fills_neither_memory_nor_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transcript, "MAX_BYTES", 300_000)
    kept, file = written(tmp_path)
    flood = event(result="\U0001f955" * 20_000)  # twelve bytes each in a line
    assert len(flood.model_dump_json()) * 50 > 2 * transcript.MAX_BYTES  # it would not have fitted
    for _ in range(50):
        kept.add(flood)
    kept.finish()
    file.close()
    assert (tmp_path / "transcript.jsonl").stat().st_size < transcript.MAX_BYTES + 2000
    read = Transcript.read(file.path)
    assert len(read.events) + read.events_left_out == 50
    assert read.events_left_out >= 45


def test_one_event_is_cut_until_its_line_fits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transcript, "MAX_EVENT_BYTES", 10_000)
    kept, file = written(tmp_path)
    kept.add(event("\U0001f955" * 9000, "H" + "\0" * 50_000 + "T"))
    assert all(len(line) <= 10_000 for line in file.path.read_bytes().splitlines())
    (read,) = Transcript.read(file.path).events
    assert read.result.startswith("H")
    assert read.result.endswith("T")
    assert "left out" in read.result
    file.close()


@given(st.lists(st.text(max_size=50), max_size=8))
def test_what_was_written_is_read_again_whatever_the_student_said(texts: list[str]) -> None:
    lines: list[bytes] = []
    kept = Transcript(task_id="t", run_id="r", system_prompt="p")
    kept.keep_with(lines.append)
    kept.instruct("do it")
    for text in texts:
        kept.add(event(json.dumps(text), text))
    kept.finish()
    assert all(line.count(b"\n") == 1 and line.isascii() for line in lines)
    with tempfile.TemporaryDirectory() as directory:
        (path := Path(directory, "transcript.jsonl")).write_bytes(b"".join(lines))
        read = Transcript.read(path)
    assert ([each.result for each in read.events], read.instructions) == (texts, ["do it"])
    assert read.finished


def test_a_transcript_can_be_read_while_its_episode_goes_on(tmp_path: Path) -> None:
    kept, file = written(tmp_path)
    kept.instruct("first")
    kept.add(event(result="one"))
    read = Transcript.read(file.path)
    assert ([each.result for each in read.events], read.instructions, read.finished) == (["one"], ["first"], False)
    kept.add(event(result="two"))
    kept.finish()
    file.close()
    read = Transcript.read(file.path)
    assert ([each.result for each in read.events], read.finished, read.torn) == (["one", "two"], True, False)


def test_a_killed_process_leaves_every_finished_call(tmp_path: Path) -> None:
    code = """
import sys, pathlib, time
from karotte_gym.transcript import *
from karotte_gym.evidence.journal import Journal
kept = Transcript(task_id="t", run_id="r", system_prompt="")
kept.keep_with(Journal(pathlib.Path(sys.argv[1])).append)
for number in range(1000000):
    kept.add(Event(step=1, tool="bash", arguments="{}", result=f"{number} " + "x" * 5000))
    print(number, flush=True)
"""
    path = tmp_path / "transcript.jsonl"
    process = subprocess.Popen([sys.executable, "-c", code, str(path)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    for _ in range(50):
        process.stdout.readline()
    process.send_signal(signal.SIGKILL)
    finished = 50 + len(process.stdout.read().split())
    assert process.wait() == -signal.SIGKILL
    read = Transcript.read(path)
    assert len(read.events) >= min(finished, transcript.MAX_EVENTS) - 1
    assert [each.result.split()[0] for each in read.events] == [str(number) for number in range(len(read.events))]
    assert not read.finished


def test_a_torn_last_line_is_left_out_and_said(tmp_path: Path) -> None:
    kept, file = written(tmp_path)
    kept.add(event(result="whole"))
    kept.add(event(result="half of it"))
    file.close()
    file.path.write_bytes(file.path.read_bytes()[:-9])
    read = Transcript.read(file.path)
    assert ([each.result for each in read.events], read.torn, read.finished) == (["whole"], True, False)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda _: b"", "no whole line"),
        (lambda data: b"{}\n" + data, "no object with a kind"),
        (lambda data: data.split(b"\n", 1)[1], "does not begin with a header"),
        (lambda data: data.replace(b'"format": 2', b'"format": 9'), "line 1: format"),
        (lambda data: data.replace(b'"kind": "call"', b'"kind": "cheer"'), "line 2: unknown kind 'cheer'"),
        (lambda data: data.replace(b'"step": 1', b'"step": "one"'), "line 2: step"),
        (lambda data: data.replace(b'"tool"', b'"took"'), "line 2: "),
        (lambda data: data + b"not json\n", "line 4 is no JSON"),
        (lambda data: data + b"[" * 100_000 + b"\n", "line 4 is no JSON"),
        (lambda data: data + data.splitlines(keepends=True)[1], "something after the end"),
    ],
)
def test_a_file_that_is_no_transcript_is_refused_in_a_sentence(tmp_path: Path, change, sentence: str) -> None:  # type: ignore[no-untyped-def]
    kept, file = written(tmp_path)
    kept.add(event())
    kept.finish()
    file.close()
    file.path.write_bytes(change(file.path.read_bytes()))
    with pytest.raises(EvidenceError, match=sentence):
        Transcript.read(file.path)


def test_neither_links_nor_pipes_nor_giants_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _, file = written(tmp_path)
    file.close()
    assert Transcript.read(file.path).task_id == "t"  # what the link leads to could be read
    (tmp_path / "link").symlink_to(file.path)
    os.mkfifo(tmp_path / "pipe")
    monkeypatch.setattr(transcript, "MAX_FILE_BYTES", 10)
    for name in ("link", "pipe", "transcript.jsonl", "nothing"):
        with pytest.raises(EvidenceError, match=name):
            Transcript.read(tmp_path / name)


def test_a_full_disk_is_named_and_leaves_no_half_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept, file = written(tmp_path)
    kept.add(event(result="whole"))
    before, digest = file.path.read_bytes(), file.sha256
    real, calls = os.write, []

    def full(descriptor: int, data: bytes) -> int:
        calls.append(len(data))
        if len(calls) > 1:
            raise OSError(28, "No space left on device")
        return real(descriptor, bytes(data)[:10])

    monkeypatch.setattr(journal.os, "write", full)
    with pytest.raises(EvidenceError, match="No space left"):
        kept.add(event(result="does not fit"))
    monkeypatch.undo()
    assert len(calls) == 2
    assert (file.path.read_bytes(), file.sha256) == (before, digest)
    file.close()


def test_the_disk_is_told_of_a_line_though_no_other_follows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import threading

    synced = threading.Event()
    real = os.fdatasync
    monkeypatch.setattr(journal, "SYNC_WITHIN_S", 0.01)
    monkeypatch.setattr(journal.os, "fdatasync", lambda descriptor: (real(descriptor), synced.set()))
    kept, file = written(tmp_path)
    kept.add(event())
    assert synced.wait(10)
    file.close()
    with pytest.raises(EvidenceError, match="is closed"):
        file.append(b"late\n")


def test_a_journal_is_never_written_over(tmp_path: Path) -> None:
    (tmp_path / "transcript.jsonl").write_text("evidence")
    with pytest.raises(EvidenceError, match="can't be made"):
        Journal(tmp_path / "transcript.jsonl")
    assert (tmp_path / "transcript.jsonl").read_text() == "evidence"
