"""What is looked at in the student's machine, when, and what is said of it; with listings that a test makes up."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from memory_sandbox import DONE

from karotte_gym.errors import CallRefused
from karotte_gym.judges.messages import submitted_message
from karotte_gym.registration import load_task, register_project
from karotte_gym.task import Task
from karotte_gym.validate import Finding, Verdict, validate
from karotte_gym.validate import secrets_in_machine as checked
from karotte_gym.validate.machine_listing import LISTING, Listing
from karotte_gym.validate.submit_messages import is_anchored, made_up_messages
from tests import defective

NOTHING = Listing((), (), "", 0)


def made(name: str, into: Path) -> type[Task]:
    """Registered under a name that no other test has taken."""
    defective.made(name, into)
    folder = (into / name).rename(into / into.name)
    register_project(into)
    return load_task(str(folder))


class Machine:
    """What the student's machine lists, from one listing to the next."""

    def __init__(self) -> None:
        self.listings = [NOTHING]
        self.files: dict[str, bytes] = {}
        self.asked: list[dict[str, Any]] = []

    def list(self, _sandbox: object, **how: Any) -> Listing:
        self.asked.append(how)
        return self.listings[min(len(self.asked), len(self.listings)) - 1]

    def get(self, path: str) -> bytes:
        if path not in self.files:
            raise CallRefused("no-file", path)
        return self.files[path]


@pytest.fixture
def machine(world: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[Machine]:
    machine = Machine()
    world.submitted = b"605613\n"
    monkeypatch.setattr(checked, "listing_of", machine.list)
    monkeypatch.setattr(checked, "now_in", lambda _: 1234.5)
    monkeypatch.setattr("memory_sandbox.MemorySandbox.get_file", lambda _, path, **__: machine.get(path))
    return machine


def failures(task: type[Task], check: str = "secrets-in-machine", verdict: Verdict = Verdict.FAIL) -> list[str]:
    findings: list[Finding] = validate(task, only=[check])
    return [finding.found for finding in findings if finding.verdict is verdict]


def test_names_and_files_are_searched(machine: Machine, tmp_path: Path) -> None:
    task = made("sound", tmp_path)
    assert failures(task) == []
    machine.listings = [Listing((("/tmp/log", 7),), ("/tmp/link -> 605613", "/tmp/605613"), "SUM=605613", 0)]
    machine.files["/tmp/log"] = b"605613\n"
    places = ("/tmp/log", "the name /tmp/link -> 605613", "the name /tmp/605613", "the environment")
    said = " ".join(failures(task))
    assert all(f"{place} holds" in said or f"{place} or command line of a process holds" in said for place in places), said
    machine.files.clear()
    assert "1 files were too many" in failures(task, verdict=Verdict.WARN)[0]


def test_what_is_all_known_is_not_said_to_be_hidden(machine: Machine, tmp_path: Path) -> None:  # noqa: ARG001
    task = made("sound", tmp_path)
    task.known_to_student = ("605613",)
    assert "told every string" in failures(task, verdict=Verdict.NOT_CHECKED)[0]


def test_the_whole_image_is_listed_where_the_task_made_it(machine: Machine, tmp_path: Path) -> None:
    task = made("sound", tmp_path)
    failures(task)
    spec = dataclasses.replace(task.student_machine(), containerfile="Containerfile")
    task.student_machine = classmethod(lambda _cls, **_: spec)  # type: ignore[assignment, method-assign]
    failures(task)
    assert [how["whole_image"] for how in machine.asked] == [False, True]


def test_between_steps_only_what_came_since_is_searched(machine: Machine, world: Any, tmp_path: Path) -> None:
    task = made("answer_for_the_next_step", tmp_path)
    world.submitted = b"2910000\n"
    leak = Listing((("/workdir/notes.txt", 8),), (), "", 0)
    machine.listings, machine.files = [NOTHING, leak], {"/workdir/notes.txt": b"2910000 comes next"}
    assert any("/workdir/notes.txt, when step 2 begins, holds" in sentence for sentence in failures(task))
    assert [how["since"] for how in machine.asked] == [0.0, 1234.5]


@pytest.mark.parametrize("drawn_in_play", [True, False])
def test_grading_data_that_the_seed_does_not_govern_fails(
    machine: Machine,  # noqa: ARG001
    tmp_path: Path,
    drawn_in_play: bool,
) -> None:
    task = made("sound", tmp_path)
    drawn: list[int] = []

    def grading_data(self: Task) -> Mapping[str, bytes]:
        drawn.append(1)
        handed_in = self.store.get("handed in", 0) if drawn_in_play else len(drawn)
        return {"expected.txt": b"%d" % (1_000_000 + handed_in)}

    def hook(_sandbox: object, store: Any) -> None:
        store["handed in"] = 1

    task.grading_data = grading_data  # type: ignore[method-assign]
    if drawn_in_play:
        task.steps = (dataclasses.replace(task.steps[0], pre_scoring_hook=hook),)
    assert ("the same seed gives other grading data" in failures(task)) is not drawn_in_play


def test_an_answer_that_the_instructions_tell_is_named_though_it_is_no_secret_any_more(
    machine: Machine,  # noqa: ARG001
    tmp_path: Path,
) -> None:
    assert failures(made("answer_in_the_instructions", tmp_path)) == [
        "the instructions or the system prompt tell all of the solution's /workdir/answer.txt"
    ]


def test_the_listing_is_a_program() -> None:
    compile(LISTING, "listing", "exec")


def test_a_tool_in_the_machine_may_not_hold_the_answer_and_one_on_the_host_need_not(world: Any, tmp_path: Path) -> None:
    world.submitted = b"605613\n"
    task = made("answer_in_a_tool", tmp_path)
    assert any("tools/check_sum.py holds" in sentence for sentence in failures(task, "secrets-in-tools"))
    path = task.folder() / "tools" / "hint.py"
    path.write_text('"""A hint."""\n\n\ndef hint() -> str:\n    """Give a hint."""\n    return "60" + "5613"\n')
    task.tools = ("bash", "hint")
    assert any("what the tool hint says holds" in sentence for sentence in failures(task, "secrets-in-tools"))
    task.tools = ("bash", "ask")
    path.with_name("ask.py").write_text(
        'KEY = "605613"\n\n\ndef ask(guess: str) -> bool:\n'
        '    """Ask.\n\n    Args:\n        guess: One.\n    """\n    return guess == KEY\n'
    )
    assert failures(task, "secrets-in-tools") == []
    assert any("tools/ask.py holds" in sentence for sentence in failures(task, "secrets-in-tools", Verdict.WARN))


def test_a_pattern_that_any_number_fits_is_caught(world: Any, tmp_path: Path) -> None:  # noqa: ARG001
    task = made("any_number_said", tmp_path)
    assert {sentence.split("(")[1].split(")")[0] for sentence in failures(task, "submit-message")} == {
        "numbers",
        "other letters and digits in the form of the right one",
        "the right one among guesses",
    }
    assert "anywhere in the message" in failures(task, "submit-message", Verdict.WARN)[0]


@pytest.mark.parametrize(
    ("pattern", "anchored"),
    [
        (r"\A605613\z", True),
        (r"(?i)^(a|b)$", True),
        (r"\A[|(]\z", True),
        (r"\A\|\z", True),
        ("605613", False),
        (r"\A605613", False),
        (r"^a$|b", False),
        (r"^a|b$", False),
        (r"(?m)^605613$", False),
        (r"^605613\$", False),
    ],
)
def test_a_pattern_is_anchored_when_it_means_the_whole_message(pattern: str, *, anchored: bool) -> None:
    assert is_anchored(pattern) is anchored


def test_what_is_right_is_not_among_the_messages_made_up() -> None:
    assert "done" not in [text for _, text in made_up_messages("Say done.", "done")]
    assert dict(made_up_messages("x", "db-79"))["other letters and digits in the form of the right one"] == "ec-80"
    assert len(made_up_messages("x", "")) == 4
    assert submitted_message(()) == ""


def test_a_grader_that_tells_the_answer_is_a_warning(world: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("memory_sandbox.MemorySandbox.run", lambda *_, **__: DONE)
    world.submitted = b"605613\n"
    world.result = b'{"score": 0.0, "metadata": {"reason": "expected 605613"}}'
    task = made("sound", tmp_path)
    assert failures(task, "nothing-pays-nothing") == []
    assert "the grader puts" in failures(task, "nothing-pays-nothing", Verdict.WARN)[0]
    assert "the grader puts" in failures(task, "broken-submissions", Verdict.WARN)[0]
    world.result = b'{"score": 0.0, "metadata": {"reason": "wrong"}}'
    assert failures(task, "nothing-pays-nothing", Verdict.WARN) == []
