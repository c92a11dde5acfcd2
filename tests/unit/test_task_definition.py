"""What a Task class may not say is refused when Python reads it, with the class, the file and the attribute."""

# ruff: noqa: ARG005 - methods that are only looked at
from __future__ import annotations

from typing import Any

import pytest

from karotte_gym import AlwaysPassJudge, ConfigError, ExecutableJudge, FunctionJudge, Hardware, Step, Task, TaskConfig
from karotte_gym.judges.base import Judge
from karotte_gym.task_attributes import ANSWER_FORMS
from karotte_gym.validate.broken_forms import RIGHT
from tests.unit.judges import graded_by_function as functions

MIB = 1024 * 1024
X = "/workdir/x"


def step(*paths: str, judge: Judge | None = None) -> Step:
    return Step("Write a file.", paths or (X,), judge or AlwaysPassJudge())


def define(bases: tuple[type, ...] = (Task,), **attributes: Any) -> type[Task]:
    return type("Mine", bases, {"id": "my-task", "steps": (step(),), "__module__": __name__, **attributes})


def refused(sentence: str, **attributes: Any) -> None:
    with pytest.raises(ConfigError, match=sentence) as caught:
        define(**attributes)
    assert str(caught.value).startswith(f"task class Mine in {__file__}: ")


@pytest.mark.parametrize("value", [0.5, 1.0, 10**400, float("nan"), float("inf"), -1, -0.001, True, "0.1", None])
def test_a_tolerance_that_proves_nothing_is_refused(value: Any) -> None:
    refused("score_tolerance must be a number from 0 to less than 0.5", score_tolerance=value)


@pytest.mark.parametrize("value", [0, 0.0, 0.1, 0.499])
def test_a_tolerance_within_which_a_right_and_a_wrong_score_lie_apart_is_taken(value: Any) -> None:
    assert define(score_tolerance=value).score_tolerance == value


WRONG = [
    ("hardware", {}, r"hardware must be Hardware\(...\), not {}"),
    ("grader_hardware", None, r"grader_hardware must be Hardware\(...\)"),
    ("limits", {"process_count": 9}, r"limits must be Limits\(...\)"),
    ("submission_limits", {}, r"submission_limits must be SubmissionLimits\(...\)"),
    ("Config", dict, "Config must be a class of TaskConfig"),
    ("Config", None, "Config must be a class of TaskConfig"),
    ("Config", TaskConfig(), "Config must be a class of TaskConfig"),
    ("system_prompt", 5, "system_prompt must be text, not 5"),
    ("accepted_forms", "twice", r'accepted_forms = \("twice",\), not \'twice\''),
    ("accepted_forms", ("twise",), "there is no form 'twise'; there are: .*twice"),
    ("accepted_forms", (5,), "accepted_forms must be a tuple of names"),
    ("known_to_student", "605613", r"known_to_student = \(.*\), not '605613'"),
    ("known_to_student", (605613,), "known_to_student must be a tuple of texts"),
    ("known_to_student", ("",), "known_to_student must be a tuple of texts"),
    ("pre_hook", 5, r"pre_hook must be a method: def pre_hook\(self, ...\)"),
    ("grading_data", {"a": b""}, "grading_data must be a method"),
    ("configure_tools", {}, "configure_tools must be a method"),
    ("combine_scores", 1.0, "combine_scores must be a method"),
]


@pytest.mark.parametrize(("name", "value", "sentence"), WRONG)
def test_an_attribute_of_the_wrong_type_is_named(name: str, value: Any, sentence: str) -> None:
    refused(sentence, **{name: value})


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("score_tolerence", "score_tolerance"),
        ("acceptd_forms", "accepted_forms"),
        ("known_to_students", "known_to_student"),
        ("grader_hardwear", "grader_hardware"),
        ("tool", "tools"),
        ("sytem_prompt", "system_prompt"),
    ],
)
def test_a_name_with_a_letter_wrong_is_answered_with_the_right_one(name: str, meant: str) -> None:
    refused(f"a Task has no {name}: did you mean {meant}", **{name: 0.1})


def test_a_misspelt_name_in_a_base_of_ones_own_is_found_and_other_names_are_an_authors_own() -> None:
    class Base(Task):
        score_tolerence = 0.1

    with pytest.raises(ConfigError, match="did you mean score_tolerance"):
        define(bases=(Base,))

    class Mixin:
        tool = "of the mixin"

    mine = define(bases=(Mixin, Task), COUNT=5, _tool=1, rows=(1, 2), draw=lambda self: 1, limit=property(lambda self: 1))
    assert mine.COUNT == 5  # type: ignore[attr-defined]


def test_the_steps_of_gymnasium_are_limited_elsewhere() -> None:
    refused(r"no max_episode_steps: .*StepLimits\(turns=...\).*gym.make\(..., max_episode_steps=...\)", max_episode_steps=9)


def test_the_forms_that_a_task_may_accept_are_those_that_validate_tries() -> None:
    assert [form.name for form in RIGHT] == list(ANSWER_FORMS)


@pytest.mark.parametrize(
    ("paths", "sentence"),
    [
        ((X, X), "submission path '/workdir/x' is named twice"),
        ((X, "/workdir/y", X), "submission path '/workdir/x' is named twice"),
        ((X, "/workdir/x/y"), "'/workdir/x/y' lies in '/workdir/x'"),
        (("/workdir/x/y/z", X), "'/workdir/x/y/z' lies in '/workdir/x'"),
        (("/workdir/a\0b",), r"'/workdir/a\\x00b' holds a character that can't be seen"),
        (("/workdir/a\n",), r"'/workdir/a\\n' holds a character"),
        (("/workdir/a\u2028b",), "holds a character"),
        (("/workdir/\ud800",), "holds a character"),
        (("/workdir/" + "a" * 256,), "no name in it may have more than 255 bytes"),
        (("/workdir/" + "é" * 128,), "no name in it may have more than 255 bytes"),
        (("/workdir" + "/aaaaaaaaa" * 410,), "has more than 4095 bytes"),
    ],
)
def test_paths_that_can_not_be_handed_in_are_named_when_the_step_is_made(paths: tuple[str, ...], sentence: str) -> None:
    with pytest.raises(ConfigError, match=sentence) as caught:
        step(*paths)
    assert len(str(caught.value)) < 300


def test_paths_beside_each_other_are_taken() -> None:
    paths = (X, "/workdir/xy", "/workdir/x.txt", "/workdir/ä b", "/workdir/" + "a" * 255)
    assert step(*paths).submission_paths == paths


@pytest.mark.parametrize("grade_in", ["grader", "student"])
def test_a_judge_that_may_use_more_than_its_machine_has_is_refused(grade_in: str) -> None:
    where = {"grader": "grader_hardware", "student": "hardware"}[grade_in]
    small, judge = Hardware(memory_mib=512), ExecutableJudge(memory_bytes=513 * MIB)
    for each in (judge, AlwaysPassJudge() & judge, judge | AlwaysPassJudge()):
        steps = (step(), step(judge=each))
        sentence = rf"the judge of step 2 may use {513 * MIB} bytes, and its machine has 512 MiB: .*{where} = Hardware"
        refused(sentence, steps=steps, grade_in=grade_in, **{where: small})
        define(steps=steps, grade_in=grade_in, **{where: Hardware(memory_mib=513)})
    define(steps=(step(judge=FunctionJudge(functions.total_is_right, memory_bytes=9999 * MIB)),))  # runs on the host


def test_an_id_that_makes_too_long_names_is_refused() -> None:
    refused("64 letters at most", id="a" * 65)
    assert define(id="a" * 64).id == "a" * 64
