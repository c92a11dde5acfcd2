"""`FunctionJudge`: the function's process is ended whatever a submission does to it, and only its verdict is believed."""

# ruff: noqa: ARG001, ARG005 - functions that are only looked at
from __future__ import annotations

import dataclasses
import functools
import json
import subprocess
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import pytest

from karotte_gym import ConfigError, FunctionJudge, GradingError
from karotte_gym.judges import function_process
from karotte_gym.store import ProtectedStore
from tests.unit.judges import graded_by_function as functions
from tests.unit.judges.evidence import NEEDS, evidence_of, said

ANSWER = functions.ANSWER


def judged(function: Any, tmp_path: Path, data: bytes = b"x", **options: Any) -> Any:
    return FunctionJudge(function, **options).judge(evidence_of(tmp_path, {ANSWER: data}))


@pytest.mark.parametrize(("data", "score"), [(b'{"total": 42}', 1.0), (b'{"total": 41}', 0.0)])
def test_the_number_that_it_returns_is_the_score(tmp_path: Path, data: bytes, score: float) -> None:
    assert judged(functions.total_is_right, tmp_path, data).score == score


def test_a_scoring_keeps_its_notes_and_may_stop_the_task(tmp_path: Path) -> None:
    scoring = judged(functions.with_notes, tmp_path)
    assert (scoring.score, scoring.metadata, scoring.stop_task) == (0.5, {"files": [ANSWER]}, True)


def test_a_second_parameter_gets_what_belongs_to_the_episode(tmp_path: Path) -> None:
    store = ProtectedStore()
    store.set("drawn", [1, 2])
    evidence = evidence_of(
        tmp_path,
        {ANSWER: b"\x00\xff"},
        grading_data={"expected": b"\x00\xff"},
        messages=(said("hello \ud800"),),
        store=store,
        seed=7,
    )
    scoring = FunctionJudge(functions.by_context).judge(evidence)
    assert scoring.score == 1.0
    assert scoring.metadata == {"store": [1, 2], "seed": 7, "said": "hello \ud800"}


def test_the_tasks_root_data_is_there_and_part_of_the_criterion(tmp_path: Path) -> None:
    root_data = tmp_path / "root_data"
    root_data.mkdir()
    (root_data / "key").write_bytes(b"42")
    judge, needs = FunctionJudge(functions.by_root_data), dataclasses.replace(NEEDS, folder=tmp_path)
    evidence = evidence_of(tmp_path, {functions.ANSWER: b"42"}, root_data=str(root_data))
    assert judge.judge(evidence).score == 1.0
    before = judge.criterion(needs)["data_sha256"]
    (root_data / "key").write_bytes(b"43!")
    assert judge.criterion(needs)["data_sha256"] != before
    assert judge.judge(evidence).score == 0.0


def test_a_function_in_a_class_and_with_a_default_is_called_with_the_files_alone(tmp_path: Path) -> None:
    assert judged(functions.Checks.inside_a_class, tmp_path).score == 1.0


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"{", "JSONDecodeError"),
        (b"[" * 900, "RecursionError|JSONDecodeError"),
        (b'{"total"' + b":" * 10, "JSONDecodeError"),
        (b"[]", "TypeError"),
        (b"{}", "KeyError"),
    ],
)
def test_what_it_raises_is_a_zero_with_a_reason_and_a_warning_for_the_author(tmp_path: Path, data: bytes, reason: str) -> None:
    with pytest.warns(RuntimeWarning, match=f"total_is_right raised ({reason}).*the submission scores 0"):
        scoring = judged(functions.total_is_right, tmp_path, data)
    assert scoring.score == 0.0 and scoring.metadata["grading_fault"] == "raised"
    assert "graded_by_function.py" in scoring.metadata["reason"] or "decoder.py" in scoring.metadata["reason"]


@pytest.mark.parametrize(("data", "reason"), [(b"\xff", "no utf-8 text"), (b"1" * 1001, "1001 bytes; 1000 are read")])
def test_what_can_not_be_read_is_a_zero_and_no_warning(tmp_path: Path, data: bytes, reason: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        scoring = judged(functions.total_is_right, tmp_path, data)
    assert scoring.score == 0.0 and reason in scoring.metadata["reason"]


def test_a_reason_from_the_submission_is_harmless_to_read(tmp_path: Path) -> None:
    scoring = judged(functions.by_refusing, tmp_path, b"\x1b[2Jgone\r" + b"x" * 5000)
    assert "\x1b" not in scoring.metadata["reason"] and "\r" not in scoring.metadata["reason"]
    assert len(scoring.metadata["reason"]) < 1100


@pytest.mark.parametrize("function", [functions.without_end, functions.by_backtracking])
def test_a_function_that_never_returns_is_ended(tmp_path: Path, function: Any) -> None:
    attack = f"import sys; sys.path[:0] = {sys.path!r}\nfrom tests.unit.judges import graded_by_function as f\n"
    attack += f"class Files:\n exists = lambda *_: True\n read_text = lambda *_: 'a' * 40 + 'b'\nf.{function.__name__}(Files())"
    with pytest.raises(subprocess.TimeoutExpired):  # without an end from outside it hangs whoever calls it
        subprocess.run([sys.executable, "-c", attack], timeout=5, check=False)
    started = time.monotonic()
    scoring = judged(function, tmp_path, b"a" * 40 + b"b", timeout_s=0.5)
    assert scoring.score == 0.0
    assert scoring.metadata == {"reason": "the function ran longer than 0.5 s", "grading_fault": "timeout"}
    assert time.monotonic() - started < 60, "far below the hour that it would run: the bound is for a busy host"


def test_memory_is_bounded(tmp_path: Path) -> None:
    scoring = judged(functions.by_all_memory, tmp_path, memory_bytes=64 * 1024 * 1024)
    assert (scoring.score, scoring.metadata["grading_fault"]) == (0.0, "memory")


def test_a_process_that_dies_is_a_zero(tmp_path: Path) -> None:
    scoring = judged(functions.by_dying, tmp_path)
    assert (scoring.score, scoring.metadata["grading_fault"]) == (0.0, "died")
    assert scoring.metadata["reason"] == "the function's process ended with -6"


def test_a_process_that_closes_its_pipe_and_stays_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(function_process, "EXIT_TIMEOUT_S", 0.2)
    scoring = judged(functions.by_hanging_up, tmp_path)
    assert (scoring.score, scoring.metadata["grading_fault"]) == (0.0, "died")


def test_leaving_the_process_is_no_verdict(tmp_path: Path) -> None:
    with pytest.warns(RuntimeWarning, match="SystemExit"):
        assert judged(functions.by_leaving, tmp_path).score == 0.0


@pytest.mark.parametrize(
    ("word", "shown"),
    [
        (b"true", "True"),
        (b"text", "'111111111111...1111111111111'"),
        (b"nan", "nan"),
        (b"two", "2.0"),
        (b"none", "None"),
        (b"digits", "something of type int that is too long to show"),
    ],
)
def test_what_is_no_score_is_a_zero_and_one_sentence_with_judge_value_and_what_is_allowed(
    tmp_path: Path, word: bytes, shown: str
) -> None:
    sentence = f"FunctionJudge by_no_score returned {shown}; allowed is a number from 0 to 1, or a Scoring with one"
    with pytest.warns(RuntimeWarning) as warned:
        scoring = judged(functions.by_no_score, tmp_path, word)
    assert (scoring.score, scoring.metadata) == (0.0, {"reason": sentence, "grading_fault": "wrong_result"})
    assert [str(one.message) for one in warned] == [f"{sentence}; the submission scores 0"]


@pytest.mark.parametrize(("word", "said"), [(b"score", "score 2.0: a score is from 0 to 1"), (b"notes", "must be plain JSON")])
def test_a_scoring_made_wrong_is_told_with_the_authors_line_and_without_pydantics_words(
    tmp_path: Path, word: bytes, said: str
) -> None:
    with pytest.warns(RuntimeWarning, match=said):
        reason = judged(functions.by_wrong_scoring, tmp_path, word).metadata["reason"]
    assert "graded_by_function.py:" in reason and "pydantic" not in reason and "\n" not in reason


def test_an_error_of_ours_is_no_score(tmp_path: Path) -> None:
    with pytest.raises(GradingError, match="the word list is not installed"):
        judged(functions.by_own_error, tmp_path)


PATHS = [
    ("out/x.txt", 'the absolute one of the machine, "/workdir/x.txt", not out/x.txt'),
    ("", "the absolute one"),
    (5, "is text, not int"),
    (None, "is text, not NoneType"),
    (["/workdir/answer.json"], "is text, not list"),
    ("/workdir/\0", "not handed in"),
    ("/workdir/../etc/passwd", "not handed in"),
    ("/\ud800", "not handed in"),
    ("/" + "x" * 600_000, "not handed in"),
    ("x" * 600_000, "the absolute one"),
]


@pytest.mark.parametrize(("path", "reason"), PATHS, ids=lambda value: repr(value)[:20])
@pytest.mark.parametrize("how", ["read_text", "size"])
def test_a_wrong_path_that_the_submission_names_is_its_fault(tmp_path: Path, how: str, path: Any, reason: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        scoring = judged(functions.by_manifest, tmp_path, json.dumps({"how": how, "file": path}).encode())
    assert scoring.score == 0.0 and reason in scoring.metadata["reason"]


@pytest.mark.parametrize("how", ["exists", "list"])
@pytest.mark.parametrize("path", ["out/x.txt", 5])
def test_a_path_that_is_none_has_no_answer(tmp_path: Path, how: str, path: Any) -> None:
    scoring = judged(functions.by_manifest, tmp_path, json.dumps({"how": how, "file": path}).encode())
    assert scoring.score == 0.0 and scoring.metadata["reason"].startswith("a submitted path is ")


@pytest.mark.parametrize("letter", ["x", "\x00", "\U0001f600"], ids=ascii)  # an escape has up to 12 bytes
@pytest.mark.parametrize("function", [functions.by_refusing, functions.by_huge_error])
@pytest.mark.filterwarnings("ignore:by_huge_error raised")
def test_a_reason_as_long_as_the_submission_is_cut(tmp_path: Path, function: Any, letter: str) -> None:
    scoring = judged(function, tmp_path, (letter * 600_000).encode())
    assert scoring.score == 0.0 and 400 < len(scoring.metadata["reason"]) < 1100


NOTES = {
    "too long": json.dumps({"x": "y" * 600_000}),
    "NaN": '{"x": NaN}',
    "infinite": '{"x": 1e999}',
    "no mapping": "[1]",
    "nested as deep as a judge's short stack takes": '{"x": ' + "[" * 900 + "]" * 900 + "}",
}


@pytest.mark.parametrize("notes", NOTES.values(), ids=NOTES)
@pytest.mark.parametrize("function", [functions.by_any_notes, functions.by_notes_added_later])
def test_notes_that_can_not_be_kept_are_a_zero(tmp_path: Path, function: Any, notes: str) -> None:
    with pytest.warns(RuntimeWarning, match=f"{function.__name__} (raised|returned a Scoring that can't be kept: metadata)"):
        scoring = judged(function, tmp_path, notes.encode())
    assert scoring.score == 0.0 and scoring.metadata["grading_fault"] in ("raised", "wrong_result")
    assert "pydantic" not in scoring.metadata["reason"]


def test_a_copy_that_changed_since_custody_is_no_score(tmp_path: Path) -> None:
    evidence = evidence_of(tmp_path, {ANSWER: b'{"total": 41}'})
    copy = Path(evidence.submission.files[0].data_path)
    copy.write_bytes(b'{"total": 42} ')
    with pytest.raises(GradingError, match="changed its size"):
        FunctionJudge(functions.total_is_right).judge(evidence)
    copy.unlink()
    copy.symlink_to("/etc/hostname")
    with pytest.raises(GradingError, match="can't be read"):
        FunctionJudge(functions.total_is_right).judge(evidence)


def test_what_it_prints_reaches_nobody(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert judged(functions.by_printing, tmp_path, b"\x1b[2J").score == 1.0
    assert capfd.readouterr() == ("", "")


def test_no_key_lies_in_its_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_PROVIDER_KEY", "canary")
    assert judged(functions.by_environment, tmp_path).metadata == {"keys": []}


def test_what_it_started_ends_with_it(tmp_path: Path) -> None:
    beat = tmp_path / "beat"
    scoring = judged(functions.by_a_child, tmp_path, str(beat).encode(), timeout_s=8)  # in which it must get to its child
    assert scoring.metadata["grading_fault"] == "timeout"
    assert beat.exists(), "the child did run"
    last = beat.read_text()
    time.sleep(0.3)
    assert beat.read_text() == last


def test_a_module_that_does_not_load_is_no_score(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "broken_later.py").write_text("def check(files):\n    return 1.0\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    import broken_later  # type: ignore[import-not-found]

    judge = FunctionJudge(broken_later.check)
    assert judge.judge(evidence_of(tmp_path, {ANSWER: b""})).score == 1.0
    (tmp_path / "broken_later.py").write_text("import a_module_that_is_not_there\n")
    with pytest.raises(GradingError, match="a_module_that_is_not_there"):
        judge.judge(evidence_of(tmp_path, {ANSWER: b""}))


def test_a_function_of_an_environments_folder_is_found(tmp_path: Path) -> None:
    from karotte_gym.registration import load_task

    folder = tmp_path / "counted"
    folder.mkdir()
    (folder / "check.py").write_text("def check(files):\n    return float(files.read_text('/workdir/answer.json') == 'x')\n")
    (folder / "__init__.py").write_text(
        "from karotte_gym import FunctionJudge, Step, Task\n"
        "from .check import check\n"
        "class Counted(Task):\n"
        "    id = 'counted'\n"
        "    steps = (Step('Write x.', ('/workdir/answer.json',), FunctionJudge(check)),)\n"
    )
    judge = load_task(str(folder)).steps[0].judge
    assert judge.judge(evidence_of(tmp_path, {ANSWER: b"x"})).score == 1.0


def test_a_function_of_a_script_is_found_without_running_it_again(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(
        "import pathlib\n"
        "from karotte_gym import FunctionJudge\n"
        "from tests.unit.judges.evidence import evidence_of\n"
        "def check(files):\n    return float(files.exists('/workdir/answer.json'))\n"
        "if __name__ == '__main__':\n"
        "    evidence = evidence_of(pathlib.Path(__file__).parent, {'/workdir/answer.json': b''})\n"
        "    print('score', FunctionJudge(check).judge(evidence).score)\n"
    )
    root = str(Path(__file__).parents[3])
    done = subprocess.run([sys.executable, str(script)], env={"PYTHONPATH": root}, capture_output=True, text=True, check=True)
    assert done.stdout == "score 1.0\n"


def local() -> Any:
    def check(files: Any) -> float:
        return 1.0

    return check


def three(files: Any, context: Any, more: Any) -> float:
    return 1.0


def by_keyword(files: Any, *, more: Any) -> float:
    return 1.0


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"function": lambda files: 1.0}, "written with def at the top of a file"),
        ({"function": local()}, "written with def at the top of a file"),
        ({"function": functools.partial(three, 1)}, "written with def at the top of a file"),
        ({"function": len}, "written with def at the top of a file"),
        ({"function": "check"}, "written with def at the top of a file"),
        ({"function": three}, "must take the submitted files"),
        ({"function": by_keyword}, "must take the submitted files"),
        ({"function": functions.without_end, "timeout_s": 0}, "timeout_s"),
        ({"function": functions.without_end, "timeout_s": float("nan")}, "timeout_s"),
        ({"function": functions.without_end, "memory_bytes": 1.5}, "memory_bytes"),
    ],
)
def test_a_mistake_is_found_when_the_judge_is_made(arguments: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ConfigError, match=sentence):
        FunctionJudge(**arguments)


def test_the_record_names_the_function_and_digests_its_text() -> None:
    criterion = FunctionJudge(functions.total_is_right).criterion(NEEDS)
    assert (criterion["judge"], criterion["function"]) == ("FunctionJudge", "total_is_right")
    other = FunctionJudge(functions.without_end).criterion(NEEDS)
    assert criterion["code_sha256"] == other["code_sha256"] and criterion["function_sha256"] != other["function_sha256"]


def test_a_change_of_a_module_that_it_imports_or_of_its_limits_is_another_criterion(tmp_path: Path) -> None:
    folder = tmp_path / "helped"
    for inner in ("lib/deep", "tools", "attacks", "student_data", "image", "__pycache__", ".hidden"):
        (folder / inner).mkdir(parents=True)
    (folder / "__init__.py").write_text("")
    needs = dataclasses.replace(NEEDS, folder=folder)

    def criterion(**limits: Any) -> dict[str, str]:
        return FunctionJudge(functions.total_is_right, **limits).criterion(needs)

    def changed_by(name: str) -> list[str]:
        before = criterion()
        (folder / name).write_text(f"X = {name!r}")
        now = criterion()
        return [key for key in now if now[key] != before[key]]

    for name in ("helper.py", "lib/help.py", "lib/deep/help.py"):
        assert changed_by(name) == ["modules_sha256"], name
    for name in ("tools/x.py", "attacks/x.py", "student_data/x.py", "image/x.py", "__pycache__/x.py", ".hidden/x.py", "x.txt"):
        assert changed_by(name) == [], name
    assert criterion(timeout_s=5)["timeout_s"] == "5.0" != criterion()["timeout_s"]
    assert criterion(memory_bytes=10**9)["memory_bytes"] == "1000000000" != criterion()["memory_bytes"]


def test_of_a_folder_that_is_no_package_only_the_files_in_it_are_digested(tmp_path: Path) -> None:
    needs = dataclasses.replace(NEEDS, folder=tmp_path)
    digests = []
    for name in ("script.py", "others/far.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("x = 1")
        digests.append(FunctionJudge(functions.total_is_right).criterion(needs)["modules_sha256"])
    assert digests[0] == digests[1]
