"""What the checks that only read say about data, instructions and attacks that are not as they should be."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from karotte_gym.registration import load_task
from karotte_gym.validate import Verdict, validate
from tests.defective import SOUND

SUBMIT = {"name": "submit", "arguments": {}}
IDLE = {"name": "bash", "arguments": {"command": "true"}}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    into = tmp_path / "changed"
    shutil.copytree(SOUND, into)
    (into / "shared_data").mkdir()
    return into


def found(folder: Path, check: str, verdict: Verdict = Verdict.FAIL) -> list[str]:
    findings = validate(load_task(str(folder)), only=[check])
    return [finding.found for finding in findings if finding.verdict is verdict]


def instructed(folder: Path, old: str, new: str) -> Path:
    path = folder / "__init__.py"
    assert old in path.read_text()
    path.write_text(path.read_text().replace(old, new))
    return folder


@pytest.mark.parametrize(
    ("place", "hide"),
    [
        ("student_data/sum-605613", lambda path: path.mkdir()),
        ("the link student_data/link", lambda path: (path.parent / "link").symlink_to("605613")),
        ("image/etc/notes", lambda path: path.write_text("the sum is 605613")),
        ("Containerfile", lambda path: path.write_text("ARG BASE\nFROM ${BASE}\nENV SUM=605613\n")),
    ],
)
def test_names_links_and_the_image_are_searched(folder: Path, place: str, hide: Callable[[Path], object]) -> None:
    path = folder / place.removeprefix("the link ")
    path.parent.mkdir(parents=True, exist_ok=True)
    hide(path)
    assert [sentence for sentence in found(folder, "secrets-in-data") if sentence.startswith(f"{place} holds")]


@pytest.mark.parametrize(
    "name", ["grade.py", "solution.json", "__init__.py", "attacks/expression.json", "root_data/expected.txt"]
)
def test_a_copy_of_a_secret_file_is_found_under_any_name(folder: Path, name: str) -> None:
    shutil.copy(folder / name, folder / "shared_data" / "other.txt")
    assert f"shared_data/other.txt is the same as {name}" in found(folder, "secrets-in-data")


@pytest.mark.parametrize("content", ["4711\n", "blue\n", "2026-03-04\n", '{"host": "db-7", "port": "5432"}'])
def test_of_what_is_too_short_to_look_for_a_copy_is_found_and_the_rest_is_not_claimed(folder: Path, content: str) -> None:
    (folder / "root_data" / "expected.txt").write_text(content)
    assert "root_data/expected.txt: no string" in found(folder, "secrets-in-data", Verdict.NOT_CHECKED)[0]
    (folder / "student_data" / "hint").write_text(content)
    assert found(folder, "secrets-in-data") == ["student_data/hint is the same as root_data/expected.txt"]


def test_an_empty_file_is_no_copy(folder: Path) -> None:
    for name in ("root_data/.keep", "shared_data/.keep"):
        (folder / name).touch()
    assert found(folder, "secrets-in-data") == []


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("nothing else, to", "nothing else (such as 605613), to"),
        ("    steps = (", '    system_prompt = "Work. The sum is 605613."\n    steps = ('),
    ],
)
def test_an_answer_that_is_told_fails(folder: Path, old: str, new: str) -> None:
    instructed(folder, old, new)
    assert found(folder, "secrets-in-data") == ["the instructions or the system prompt tell all of root_data/expected.txt"]
    load_task(str(folder)).known_to_student = ("605613",)
    assert found(folder, "secrets-in-data") == []


def test_a_part_that_is_told_is_a_warning(folder: Path) -> None:
    (folder / "root_data" / "hosts.json").write_text('["billing-db", "search-index"]')
    instructed(folder, "nothing else, to", "nothing else (not billing-db), to")
    assert found(folder, "secrets-in-data") == []
    assert "of root_data/hosts.json" in found(folder, "secrets-in-data", Verdict.WARN)[0]


@pytest.mark.parametrize(
    "text", ["/workdir/data/nubmers.txt", "/workdir/numbers.txt", "(/workdir/data/old/).", "/workdir/date/part-*.txt"]
)
def test_a_path_that_leads_nowhere_is_a_warning(folder: Path, text: str) -> None:
    instructed(folder, "/workdir/data/numbers.txt", text)
    assert "which is not there" in found(folder, "paths-named", Verdict.WARN)[0]


@pytest.mark.parametrize(
    "text", ["/workdir/data/numbers.txt.", "/workdir/data", "`/workdir/data/num*.txt`", "/workdir/data/<name>.txt", "/workdir/"]
)
def test_a_path_that_is_there_is_none(folder: Path, text: str) -> None:
    instructed(folder, "/workdir/data/numbers.txt", text)
    assert found(folder, "paths-named", Verdict.WARN) == []


def test_what_a_hook_may_make_is_not_missed(folder: Path) -> None:
    instructed(folder, "/workdir/data/numbers.txt", "/workdir/data/drawn.txt")
    path = folder / "__init__.py"
    path.write_text(path.read_text() + "\n    def pre_hook(self, sandbox, rng):\n        pass\n")
    assert found(folder, "paths-named", Verdict.WARN) == []


@pytest.mark.parametrize(
    "calls",
    [
        [SUBMIT],
        [SUBMIT, IDLE],
        [{"name": "bsh", "arguments": {"command": "x"}}, SUBMIT],
        [{"name": "bash", "arguments": {"cmd": "x"}}, SUBMIT],
        ["nonsense", SUBMIT],
    ],
)
def test_an_attack_that_does_nothing_proves_nothing(folder: Path, calls: list[object]) -> None:
    (folder / "attacks" / "idle.json").write_text(json.dumps(calls))
    assert found(folder, "attack-files", Verdict.WARN) == [
        "attacks/idle.json does nothing before it submits, so that it earns 0 whatever the grader does"
    ]


@pytest.mark.parametrize("calls", [["nonsense", IDLE, SUBMIT], [{"name": "submit", "arguments": {"message": "605613"}}]])
def test_an_attack_that_acts_or_speaks_is_one(folder: Path, calls: list[object]) -> None:
    (folder / "attacks" / "other.json").write_text(json.dumps(calls))
    assert found(folder, "attack-files", Verdict.WARN) == []


def test_attacks_that_are_equal_or_never_played_are_named(folder: Path) -> None:
    attacks = folder / "attacks"
    (attacks / "same.json").write_text(json.dumps(json.loads((attacks / "expression.json").read_text()), indent=4))
    (attacks / "more").mkdir()
    for name in ("more/pays.json", "lines.jsonl"):
        (attacks / name).write_text("[]")
    assert set(found(folder, "attack-files", Verdict.WARN)) == {
        "attacks/same.json makes the same calls as attacks/expression.json",
        "attacks/more/pays.json is never played",
        "attacks/lines.jsonl is never played",
    }
