"""Single rules of the checks: which text names a path, which metadata is a fault, what a broken form is made of."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

from karotte_gym.errors import ConfigError
from karotte_gym.judges import AlwaysPassJudge, ExecutableJudge
from karotte_gym.judges.notes import GRADING_FAULT
from karotte_gym.registration import load_task
from karotte_gym.sandbox.contract import Submission, SubmittedFile
from karotte_gym.validate.bench import Bench, parts_of
from karotte_gym.validate.broken_forms import NOISE, QUICK, RIGHT
from karotte_gym.validate.catalogue import CHECKS, chosen
from karotte_gym.validate.faults import fault_in
from karotte_gym.validate.finding import MAX_CHARS, Verdict, fail
from karotte_gym.validate.made_up import described, rewritten, sparse, with_other_types
from karotte_gym.validate.paths_named import names
from karotte_gym.validate.report import as_json, as_table, is_sound, summary
from karotte_gym.validate.run import validate
from karotte_gym.validate.workers import fitting_workers
from tests.defective import made

FILE, TREE = "/workdir/answer.json", "/workdir/out"


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("Write to /workdir/out/a.txt.", True),
        ("Write to `out/a.txt`, then submit", True),
        ("Write ./out/a.txt", True),
        ("Write (/workdir/out/a.txt)", True),
        ("Write to /workdir/out/a.txt.bak", False),
        ("Write to /workdir/out/a.txt2", False),
        ("Write to a.txt", False),
        ("Write to /home/out/a.txt", False),
        ("Write to /tmp/workdir/out/a.txt", False),
        ("", False),
    ],
)
def test_a_path_is_named_whole_or_not_at_all(text: str, named: bool) -> None:
    assert names(text, "/workdir/out/a.txt") is named


def test_a_fault_is_found_however_deep_judges_are_combined() -> None:
    fault = {"reason": "the scoring script failed with exit code 1", GRADING_FAULT: "exit", "output": "a\nValueError: x\n"}
    nested = {"ExecutableJudge": {"score": 0.0, "metadata": fault}, "RegexJudge": {"score": 1.0, "metadata": {}}}
    assert fault_in(nested) == "the scoring script failed with exit code 1 (ValueError: x)"
    assert fault_in({"reason": "wrong number"}) is None


def test_parts_of_a_combination_are_all_found() -> None:
    judge = (ExecutableJudge("a.py") & AlwaysPassJudge()) | ExecutableJudge("b.py")
    assert [part.script for part in parts_of(judge) if isinstance(part, ExecutableJudge)] == ["a.py", "b.py"]


@pytest.fixture
def submission(tmp_path: Path) -> Submission:
    """A file, and a directory with a file in it."""
    inner = described(f"{TREE}/x.txt", b"inner", tmp_path / "inner")
    files = (described(FILE, b'{"n": 5}', tmp_path / "file"), SubmittedFile(TREE, True, 0o755, 0, "", ""), inner)
    return Submission(files, ("/workdir/missing",), "", str(tmp_path))


def contents(submission: Submission | None) -> dict[str, bytes | None]:
    assert submission is not None
    found: dict[str, bytes | None] = {}
    for file in submission.files:
        found[file.path] = None if file.is_dir else Path(file.data_path).read_bytes()
        assert file.is_dir or hashlib.sha256(found[file.path] or b"").hexdigest() == file.sha256
    return found


def test_broken_submissions_change_the_named_paths_and_nothing_else(submission: Submission, tmp_path: Path) -> None:
    into = tmp_path / "into"
    into.mkdir()
    broken = contents(rewritten(submission, (FILE, "/workdir/missing"), lambda _: b"noise", into, 3))
    assert broken == {FILE: b"noi", TREE: None, f"{TREE}/x.txt": b"inner", "/workdir/missing": b"noi"}
    assert contents(rewritten(submission, (TREE,), lambda old: old * 2, into, 99))[f"{TREE}/x.txt"] == b"innerinner"
    assert rewritten(submission, (FILE,), lambda _: None, into, 99) is None
    types = contents(with_other_types(submission, (FILE, TREE), into))
    assert types == {FILE: None, TREE: b"a file\n"}
    large = sparse(submission, (FILE,), 64 * 2**20, into)
    data = Path(next(file for file in large.files if file.path == FILE).data_path)
    assert (data.stat().st_size, data.stat().st_blocks) == (64 * 2**20, 0)


def test_forms_have_names_of_their_own_and_the_nan_form_keeps_the_shape() -> None:
    assert len({form.name for form in (*NOISE, *RIGHT)}) == len(NOISE) + len(RIGHT)
    assert set(QUICK) <= {form.name for form in NOISE}
    nan = next(form for form in RIGHT if form.name == "not-a-number")
    made = nan.make(b'{"a": [1, "x"], "b": true}')
    assert made == b'{"a": [NaN, "x"], "b": true}'
    assert nan.make(b"63148") is None  # that is one of the noises
    assert nan.make(b'{"at": "2025-07-01"}') is None
    assert nan.make(b"\xff") is None


@pytest.mark.parametrize("form", RIGHT, ids=lambda form: form.name)
def test_a_wrong_form_is_another_text_than_the_right_answer(form) -> None:  # type: ignore[no-untyped-def]
    right = b'{"n": 5, "of": ["ab", "bc"]}\n'
    assert form.make(right) not in (None, right)


def test_workers_are_at_least_one_and_no_more_than_wanted() -> None:
    task = load_task("q3-revenue")
    assert fitting_workers(task, 1) == 1
    assert 1 <= fitting_workers(task, 10_000) < 10_000


def test_checks_are_chosen_by_id_and_a_typo_is_answered_with_the_choices() -> None:
    assert [check.id for check in chosen(("hardware", "tools"))] == ["tools", "hardware"]
    assert {check.id for check in chosen(())} == {check.id for check in CHECKS}
    assert "generic-attacks" not in {check.id for check in chosen((), quick=True)}
    with pytest.raises(ConfigError, match="same-score"):
        chosen(("same_score",))


def test_a_bench_that_was_asked_nothing_starts_nothing_and_refuses_a_wrong_configuration() -> None:
    task = load_task("q3-revenue")
    Bench(task).close()
    with pytest.raises(ConfigError, match="generate"):
        Bench(task, config={"generate": True})


def test_reports_bound_and_clean_what_a_task_printed() -> None:
    finding = fail("\x1b[31m[red]" + "x" * 10_000, "mend it")
    assert "\x1b" not in finding.found
    assert len(finding.found) <= MAX_CHARS + 3
    assert as_table("t", [finding]).row_count == 1
    assert json.loads(json.dumps(as_json("t", [finding])))["ok"] is False
    assert not is_sound([finding])
    assert summary("t", [finding]) == f"t: NOT SOUND (1 {Verdict.FAIL})"


def test_what_an_authors_code_raises_is_a_finding_with_its_place(tmp_path: Path) -> None:
    task = made("sound", tmp_path)

    def broken(_self: object) -> dict[str, object]:
        raise ValueError("no such tool")

    task.configure_tools = broken  # type: ignore[assignment, method-assign]
    (finding,) = validate(task, only=["tools"])
    assert finding.verdict is Verdict.FAIL
    assert "ValueError: no such tool" in finding.found
    assert "test_checks.py:" in finding.found


def test_without_a_solution_what_needs_one_is_not_checked_and_starts_nothing(tmp_path: Path) -> None:
    findings = validate(made("solution_is_no_list", tmp_path), only=["solution-file", "solution-pays", "same-score"])
    assert [finding.verdict for finding in findings] == [Verdict.FAIL, Verdict.NOT_CHECKED, Verdict.NOT_CHECKED]
