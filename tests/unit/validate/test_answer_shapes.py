"""Each careless comparison lets a made-up submission pass that `validate` puts before it, and a strict one lets none."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from karotte_gym.validate.answer_shapes import first_only, half, more_elements, off_by_a_tenth, repeated
from karotte_gym.validate.broken_forms import NOISE, RIGHT

HOSTS = ["db-7", "auth-2"]
FACTS = {"host": "db-7", "count": 3}
Grader = Callable[[Any], Any]


def earning(grade: Callable[[bytes], float], right: bytes) -> list[str]:
    """The forms that earn what they must not."""
    assert grade(right) == 1
    noise = [form.name for form in NOISE if grade(form.content) > 0]
    made = [(form, form.make(right)) for form in RIGHT]
    return noise + [
        form.name
        for form, content in made
        if content is not None and grade(content) > (0.99 if form.partly_right else 0) and form.name != "more-keys"
    ]


def of_json(compare: Grader) -> Callable[[bytes], float]:
    def grade(content: bytes) -> float:
        try:
            return float(compare(json.loads(content.decode())))
        except (ValueError, RecursionError, TypeError, KeyError, AttributeError, IndexError, OverflowError):
            return 0.0

    return grade


def of_text(compare: Grader) -> Callable[[bytes], float]:
    return lambda content: float(compare(content.decode("utf-8", "replace").strip()))


@pytest.mark.parametrize(
    ("right", "compare"),
    [
        (HOSTS, lambda answer: isinstance(answer, list) and all(a == b for a, b in zip(answer, HOSTS, strict=False))),
        (
            HOSTS,
            lambda answer: isinstance(answer, list) and answer and all(a == b for a, b in zip(answer, HOSTS, strict=False)),
        ),
        (HOSTS, lambda answer: isinstance(answer, list) and all(host in answer for host in HOSTS)),
        (HOSTS, lambda answer: isinstance(answer, list) and set(answer) <= set(HOSTS)),
        (HOSTS, lambda answer: bool(answer) and isinstance(answer, list) and set(answer) <= set(HOSTS)),
        (HOSTS, lambda answer: isinstance(answer, list) and min(1, sum(each in HOSTS for each in answer) / len(HOSTS))),
        (FACTS, lambda answer: all(FACTS.get(key) == value for key, value in answer.items())),
        (FACTS, lambda answer: bool(answer) and all(FACTS.get(key) == value for key, value in answer.items())),
        (FACTS, lambda answer: FACTS["host"].startswith(answer["host"]) and answer["count"] == 3),
        ({"hosts": HOSTS}, lambda answer: all(a == b for a, b in zip(answer["hosts"], HOSTS, strict=False))),
        ({"accuracy": 0.97}, lambda answer: type(answer["accuracy"]) is float and answer["accuracy"] >= 0.95),
        ({"n": 1}, lambda answer: answer["n"] == 1),
        ({"total": 63148}, lambda answer: abs(answer["total"] - 63148) < 20_000),
    ],
)
def test_a_careless_comparison_of_json_is_caught(right: Any, compare: Grader) -> None:
    assert earning(of_json(compare), json.dumps(right).encode())


@pytest.mark.parametrize(
    "compare",
    [
        lambda answer: "63148".startswith(answer),
        lambda answer: bool(answer) and "63148".startswith(answer),
        lambda answer: bool(answer) and answer in "63148",
        lambda answer: answer.isdigit() and len(answer) < 9 and abs(int(answer) - 63148) < 20_000,
    ],
)
def test_a_careless_comparison_of_text_is_caught(compare: Grader) -> None:
    assert earning(of_text(compare), b"63148\n")


def test_a_careless_comparison_of_lines_is_caught() -> None:
    def compare(answer: str) -> bool:
        return bool(answer) and set(answer.splitlines()) <= {"a", "b", "c"}

    assert {"first-half", "first-only", "first-repeated"} <= set(earning(of_text(compare), b"a\nb\nc\n"))


@pytest.mark.parametrize("right", [HOSTS, FACTS, {"hosts": HOSTS, "n": 2}, [[1, 2], [3, 4]]])
def test_a_strict_comparison_is_not(right: Any) -> None:
    assert earning(lambda content: float(content == json.dumps(right).encode()), json.dumps(right).encode()) == []


def test_half_of_an_answer_may_earn_half() -> None:
    def share(answer: Any) -> float:
        right = isinstance(answer, list) and len(answer) <= len(HOSTS) and len(set(map(str, answer))) == len(answer)
        return sum(host in answer for host in HOSTS) / len(HOSTS) if right else 0.0

    assert earning(of_json(share), json.dumps(HOSTS).encode()) == []


def test_there_is_no_half_of_what_has_one_part() -> None:
    assert half(b"7\n") is None
    assert first_only(b'["x"]') is None
    assert repeated(b'["x", "x"]') is None
    assert more_elements(b"text") is None
    assert off_by_a_tenth(b"text") is None
    assert half(b"\xff\xff") is None
    assert off_by_a_tenth(b"1\n") == b"2\n"
    assert more_elements(b'[{"id": 1}]') != more_elements(b'[{"id": 2}]')
