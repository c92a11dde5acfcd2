"""The grader of speedup asks what a careless shortcut gets wrong, and its cheats would fool a weaker grader."""

from __future__ import annotations

import importlib.util
import itertools
import json
import marshal
import os
import random
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from scoring_script import GRADING, run_script

from karotte_gym.registration import load_task

TASK = load_task("speedup")
FOLDER = TASK.folder()
Function = Callable[[list[int], int], Any]


@pytest.fixture(scope="module")
def grade() -> Iterator[ModuleType]:
    """grade.py as a module, with what it may import in a grader machine."""
    sys.path.append(str(GRADING))
    spec = importlib.util.spec_from_file_location("speedup_grade", FOLDER / "grade.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    yield module
    sys.path.remove(str(GRADING))


def source_in(path: Path) -> str:
    """The fast.py that a script of calls writes."""
    command: str = json.loads(path.read_text())[0]["arguments"]["command"]
    return command.partition("<<'EOF'\n")[2].partition("\nEOF")[0] + "\n"


def function_of(source: str) -> Function:
    space: dict[str, Any] = {"__name__": "submission"}
    exec(source, space)
    found: Function = space["neighbours"]
    return found


@pytest.fixture
def slow(grade: ModuleType) -> Function:
    return function_of(grade.SLOW)


def test_the_grader_times_the_function_that_the_student_was_shown(grade: ModuleType) -> None:
    assert (FOLDER / "student_data" / "slow.py").read_text() == grade.SLOW


def test_the_samples_are_right(slow: Function) -> None:
    samples = json.loads((FOLDER / "student_data" / "samples.json").read_text())
    assert len(samples) >= 5
    assert [slow(each["values"], each["distance"]) for each in samples] == [each["result"] for each in samples]


@pytest.mark.parametrize("seed", range(5))
def test_the_solution_is_right_on_hidden_calls(grade: ModuleType, slow: Function, seed: int) -> None:
    fast = function_of(source_in(FOLDER / "solution.json"))
    for values, distance in grade.tricky_calls(random.Random(seed)) + grade.timed_calls(random.Random(seed), 300):
        assert fast(list(values), distance) == slow(list(values), distance)


def by_value(values: list[int], distance: int) -> list[int]:
    """Forgets that equal values are neighbours of each other."""
    return [sum(0 < abs(here - there) <= distance for there in values) for here in values]


def without_the_border(values: list[int], distance: int) -> list[int]:
    return [sum(abs(here - there) < distance for there in values) - 1 for here in values]


def in_doubles(values: list[int], distance: int) -> list[int]:
    return [sum(abs(float(here) - float(there)) <= distance for there in values) - 1 for here in values]


def of_the_sorted(values: list[int], distance: int) -> list[int]:
    ordered = sorted(values)
    return [sum(abs(here - there) <= distance for there in ordered) - 1 for here in ordered]


@pytest.mark.parametrize("wrong", [by_value, without_the_border, in_doubles, of_the_sorted])
@pytest.mark.parametrize("seed", range(5))
def test_a_careless_shortcut_is_caught_by_hidden_calls(grade: ModuleType, slow: Function, wrong: Function, seed: int) -> None:
    calls = grade.tricky_calls(random.Random(seed))
    assert any(wrong(list(values), distance) != slow(list(values), distance) for values, distance in calls)


def test_timed_calls_are_as_long_as_asked_for_and_never_the_same(grade: ModuleType) -> None:
    rng = random.Random(1)
    first, second = (grade.timed_calls(rng, 400)[0] for _ in range(2))
    assert len(first[0]) == len(second[0]) == 400
    assert not set(first[0]) & set(second[0])


# What a module may be written with: each function's answer to (values, distance) is told for [5], 1.
MODULES = {
    "a dataclass": """
from __future__ import annotations
from dataclasses import dataclass
from typing import ClassVar
@dataclass
class Window:
    low: int
    high: int
    made: ClassVar[int] = 0
def neighbours(values, distance):
    return [Window(0, distance).high - 1]
""",
    "type hints": """
from __future__ import annotations
from typing import NamedTuple, get_type_hints
class Window(NamedTuple):
    low: int
class Other:
    window: Window
def neighbours(values, distance):
    return [0] if get_type_hints(Other) == {"window": Window} else [1]
""",
    "pickles of its own": """
import pickle
class Window: pass
def neighbours(values, distance):
    return [0] if type(pickle.loads(pickle.dumps(Window()))) is Window else [1]
""",
    "its own module": """
import sys
def neighbours(values, distance):
    return [0] if vars(sys.modules[__name__]) is globals() else [1]
""",
    "its module taken away": """
import sys
del sys.modules[__name__]
def helper(): return [0]
def neighbours(values, distance):
    return helper()
""",
}


def driven(grade: ModuleType, source: str) -> list[str]:
    """What the driver says of two calls, the first of which brings the source."""
    calls = [([5], 1)]
    questions = marshal.dumps((source.encode(), "neighbours", calls)) + marshal.dumps((b"", "neighbours", calls))
    driver = [sys.executable, "-I", "-S", "-B", "-c", grade.DRIVER]
    done = subprocess.run(driver, input=questions, capture_output=True, check=False, timeout=60)  # it ends with its input
    return done.stdout.decode().splitlines()


@pytest.mark.parametrize("kind", MODULES)
def test_a_submission_is_a_module_like_an_imported_one(grade: ModuleType, kind: str) -> None:
    assert driven(grade, MODULES[kind]) == ["ready", "[[0]]", "[[0]]"]


def test_a_submissions_module_holds_nothing_but_its_own(grade: ModuleType) -> None:
    tell = "import sys\ndef neighbours(values, distance): return sorted(vars(sys.modules[__name__]))"
    names = ["__builtins__", "__doc__", "__file__", "__loader__", "__name__", "__package__", "__spec__", "neighbours", "sys"]
    assert driven(grade, tell)[1] == repr([names])


@pytest.mark.parametrize(
    ("ratio", "score"), [(0.5, 0.0), (1.0, 0.0), (1.24, 0.0), (1.25, 0.25 / 7), (4.5, 0.5), (8.0, 1.0), (90.0, 1.0)]
)
def test_a_score_begins_where_noise_ends_and_is_capped(grade: ModuleType, ratio: float, score: float) -> None:
    assert grade.score_of(ratio) == pytest.approx(score)


def a_round(grade: ModuleType, shares: list[float], slow: list[float] | None = None) -> Any:
    """Turns in which the submission takes so much of what the slow function does."""
    slow = slow or [1.0] * len(shares)
    fast = [share * each for share, each in zip(shares, slow, strict=True)]
    one, none = grade.Taken(1.0, 1.0), grade.Taken()
    return grade.Round(one, none, none, *([grade.Taken(each, each) for each in side] for side in (slow, fast)))


def test_a_host_that_changes_its_speed_in_the_midst_of_turns_changes_no_ratio(grade: ModuleType) -> None:
    spoilt = [a_round(grade, [1.0] * (grade.TURNS - 2) + [2.0] * 2) for _ in range(4)]
    assert grade.times_as_fast([*spoilt, a_round(grade, [0.5, 0.5, 2.0] + [1.0] * (grade.TURNS - 3))]) == 1.0
    assert grade.by_sums(spoilt, "cpu_s") < 0.95


def test_the_first_turn_with_what_it_loads_has_the_weight_of_one_turn(grade: ModuleType) -> None:
    rounds = [a_round(grade, [2.0] + [0.5] * (grade.TURNS - 1)) for _ in range(5)]
    assert grade.times_as_fast(rounds) == pytest.approx(grade.TURNS / (2.0 + 0.5 * (grade.TURNS - 1)))


@pytest.mark.parametrize("few", [1, 8])
def test_costs_that_are_hidden_in_a_few_turns_are_not_free(grade: ModuleType, few: int) -> None:
    rounds = [a_round(grade, [0.1] * (grade.TURNS - few) + [4.0] * few) for _ in range(5)]
    honest = grade.TURNS / (4.0 * few + 0.1 * (grade.TURNS - few))
    assert grade.times_as_fast(rounds) == pytest.approx(grade.SUM_SLACK * honest)


def test_what_moves_the_ratio_by_slowing_its_rival_is_seen(grade: ModuleType) -> None:
    turns = grade.TURNS - 1
    few = turns // 6 + 1
    shares = [[1.0] + [0.5] * count + [1.0] * (turns - count) for count in (turns, turns, few, few, few)]
    slowed = [a_round(grade, each, slow=[1 / share for share in each]) for each in shares]
    assert sum(each.shares().count(0.5) > turns / 2 for each in slowed) < len(slowed) / 2
    assert grade.statistics.median(grade.other_shares(slowed)) == 0.5
    assert grade.disturbance(slowed) == 2.0


def test_rounds_go_on_while_the_median_of_their_turns_may_move(grade: ModuleType) -> None:
    assert grade.is_close([1.0, 1.01, 0.99, 1.02, 0.98, 5.0] * 9)
    assert not grade.is_close([0.8, 1.2, 0.9, 1.1, 1.0, 5.0] * 9)


def rounds_of(grade: ModuleType, monkeypatch: pytest.MonkeyPatch, costs: list[float], hurry_in_s: float = 1000) -> list[Any]:
    """What rounds come to when the slow function takes a second in each turn and the submission takes `costs`."""

    class Side:
        running = False  # something of the submission's

        def __init__(self, source: bytes):
            self.costs = itertools.chain(costs, itertools.repeat(costs[-1]))
            self.is_rival = source == grade.RIVAL.encode()

        def __enter__(self) -> Side:
            return self

        def __exit__(self, *_: object) -> None:
            Side.running = False

        def ask(self, _calls: Any, taken: Any, name: str = grade.FUNCTION, **_bounds: Any) -> Any:
            Side.running |= not self.is_rival
            of_ours = (0.2 if Side.running else 0.01) if name == grade.NOTHING else 1.0
            seconds = of_ours if self.is_rival else next(self.costs)
            taken.add(seconds, seconds)
            return grade.Reply(b"[]\n", True, seconds, seconds)

    monkeypatch.setattr(grade, "Side", Side)
    return [grade.one_round(b"", random.Random(1), 250, grade.time.monotonic() + hurry_in_s) for _ in range(3)]


def test_what_asking_takes_beside_a_submission_is_not_taken_off(grade: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    """It was taken off both sides, so that a third became a sixth for who disturbed nothing but the question for nothing."""
    rounds = rounds_of(grade, monkeypatch, [1 / 3])
    assert {each.asking.cpu_s for each in rounds} == {0.01}
    assert grade.times_as_fast(rounds) == pytest.approx(3, rel=0.03)


def test_rounds_that_are_cut_short_are_worth_the_same(grade: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who dawdles until rounds are short gains nothing by it, and who can't help it loses nothing."""
    steady, loading, hidden = [0.5], [2.5, 0.5], [0.5, 4.5, 0.5]
    for costs in (steady, loading):
        whole, short = (rounds_of(grade, monkeypatch, costs, seconds) for seconds in (1000, -1))
        assert [len(each.fast) for each in (whole[0], short[0])] == [grade.TURNS, grade.LEAST_TURNS]
        assert grade.times_as_fast(short) == pytest.approx(grade.times_as_fast(whole))
    assert grade.times_as_fast(rounds_of(grade, monkeypatch, hidden, -1)) < 1


@pytest.mark.parametrize("kind", ["nothing", "directory", "fifo", "link", "huge"])
def test_what_is_no_small_file_scores_0_before_anything_is_timed(grade: ModuleType, tmp_path: Path, kind: str) -> None:
    path, result = tmp_path / grade.FAST, tmp_path / "result.json"
    path.parent.mkdir(parents=True)
    if kind == "directory":
        path.mkdir()
    elif kind == "fifo":
        os.mkfifo(path)
    elif kind == "link":
        path.symlink_to(FOLDER / "grade.py")
    elif kind == "huge":
        path.write_bytes(b"#" * (grade.MAX_SOURCE_BYTES + 1))
    run_script(FOLDER / "grade.py", tmp_path, tmp_path, result)
    found = json.loads(result.read_text())
    assert found["score"] == 0.0
    assert ("nothing was handed in" if kind == "nothing" else "the file ") in found["metadata"]["reason"]


# The cheats would pay with a weaker grader ----------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["equal_to_everything", "answers_late"])
def test_objects_that_call_themselves_equal_would_fool_a_comparison_of_objects(
    slow: Function, grade: ModuleType, name: str
) -> None:
    cheat = function_of(source_in(FOLDER / "attacks" / f"{name}.json"))
    for values, distance in grade.tricky_calls(random.Random(2)):
        right = slow(values, distance)
        assert cheat(values, distance) == right
        assert repr(cheat(values, distance)) != repr(right)


@pytest.mark.parametrize("name", ["right_only_when_short", "right_only_at_first"])
def test_an_untimed_check_alone_would_let_wrong_answers_be_timed(slow: Function, grade: ModuleType, name: str) -> None:
    cheat = function_of(source_in(FOLDER / "attacks" / f"{name}.json"))
    for values, distance in grade.tricky_calls(random.Random(3)):
        assert cheat(list(values), distance) == slow(values, distance)
    ((values, distance),) = grade.timed_calls(random.Random(3), 400)
    assert cheat(list(values), distance) != slow(values, distance)


def test_learnt_samples_answer_the_samples() -> None:
    samples = FOLDER / "student_data" / "samples.json"
    source = source_in(FOLDER / "attacks" / "samples_learnt.json").replace("/workdir/data/samples.json", str(samples))
    cheat = function_of(source)
    for each in json.loads(samples.read_text()):
        assert cheat(each["values"], each["distance"]) == each["result"]
