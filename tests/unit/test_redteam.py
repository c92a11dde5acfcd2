"""Packs are read strictly, verdicts name every way to fail, and reports hold whatever an attack printed."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import pytest

from karotte_gym.errors import ConfigError
from karotte_gym.redteam import Attack, Expectation, Outcome, generic_pack, load_pack, own_attacks, solution_of
from karotte_gym.redteam.pack import fitted
from karotte_gym.redteam.report import as_json, as_junit, as_table
from karotte_gym.redteam.verdict import verdict_on
from karotte_gym.registration import load_task

TASK = load_task("q3-revenue")


def outcome(earned: float = 0.0, blamed: str | None = None, outputs: tuple[str, ...] = (), **expect: Any) -> Outcome:
    attack = Attack(name="x", calls=[], expect=Expectation(**expect))
    return Outcome(attack, earned, blamed, list(outputs), seconds=1.0, finished=True, honest_reward=1.0)


def test_the_shipped_pack_is_sound_and_of_every_kind() -> None:
    attacks = generic_pack()
    assert len(attacks) >= 30
    assert {"custody", "grader", "secrets", "escape", "network", "resources", "processes", "shell"} <= {
        attack.area for attack in attacks
    }
    for attack in attacks:
        text = json.dumps(fitted(attack, TASK).calls)
        assert "$SUBMISSION" not in text
        assert '"solution"' not in text
        assert attack.why


def test_a_legal_case_plays_the_solution_and_submits_once() -> None:
    legal = next(attack for attack in generic_pack() if attack.expect.reward == 1.0)
    calls = fitted(legal, TASK).calls
    assert calls[: len(solution_of(TASK)) - 1] == solution_of(TASK)[:-1]
    assert [call["name"] for call in calls].count("submit") == 1


def test_own_attacks_protect_the_grading_data_but_for_what_they_hold_themselves() -> None:
    attacks = own_attacks(TASK)
    assert len(attacks) >= 5
    assert all(attack.expect.never_in_output == ["63148"] for attack in attacks)


@pytest.mark.parametrize(
    ("case", "word"),
    [
        (outcome(1.0), "earned 1"),
        (outcome(0.0, reward=1.0), "must earn 1"),
        (outcome(0.0, "a link", misbehavior=None), "though legal"),
        (outcome(0.0, None, misbehavior="*"), "not blamed"),
        (outcome(0.0, "a fifo", misbehavior="link"), "another reason"),
        (outcome(0.0, None, ("all 63148",), never_in_output=["63148"]), "protected string"),
        (outcome(0.0, None, ("a",), output_matches={"0": "b"}), "does not match"),
        (outcome(0.0, None, (), output_matches={"3": "b"}), "no such call"),
        (outcome(0.0, None, max_seconds=0.5), "may take"),
    ],
)
def test_each_way_to_fail_is_named(case: Outcome, word: str) -> None:
    (sentence,) = verdict_on(case)
    assert word in sentence


def test_a_protected_string_is_not_repeated_in_the_report() -> None:
    (sentence,) = verdict_on(outcome(0.0, None, ("63148",), never_in_output=["63148"]))
    assert "63148" not in sentence


def test_hangs_faults_and_spoilt_honest_episodes_fail() -> None:
    hung = outcome()
    hung.finished = False
    assert "did not end" in verdict_on(hung)[0]
    faulty = outcome()
    faulty.error = "MachineError: no disk"
    assert "no disk" in verdict_on(faulty)[0]
    spoilt = outcome()
    spoilt.honest_reward = 0.0
    assert "honest episode" in verdict_on(spoilt)[0]


@pytest.mark.parametrize(
    ("case", "pattern"),
    [(outcome(), ".*"), (outcome(0.0, "x"), ".*"), (outcome(0.0, "A Link at"), "link"), (outcome(0.0, "x"), "*")],
)
def test_what_ended_as_it_must_has_no_failure(case: Outcome, pattern: str) -> None:
    case.attack = case.attack.model_copy(update={"expect": Expectation(misbehavior=pattern)})
    assert verdict_on(case) == []


def test_reports_hold_what_xml_and_terminals_can_not() -> None:
    bad = outcome(1.0, "\x1b[31m\x00]]>\ud83d <b>")
    bad.failures = ["\x00 <script>", "two"]
    root = ET.fromstring(as_junit("q3-revenue", [bad, outcome()]))
    assert (root.get("tests"), root.get("failures")) == ("2", "1")
    assert as_json([bad])[0]["failures"] == ["\x00 <script>", "two"]
    assert as_table([bad]).row_count == 1


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("{", "no JSON"),
        ("{}", "must be a JSON list"),
        ('[{"name": "x"}]', "no attack pack"),
        ('[{"name": "x", "calls": [], "expect": {"misbehavior": "("}}]', "no attack pack"),
        ('[{"name": "x", "calls": [], "expect": {"max_seconds": -1}}]', "no attack pack"),
        ('[{"name": "x", "calls": []}, {"name": "x", "calls": []}]', "come twice"),
    ],
)
def test_a_pack_that_is_wrong_is_named(tmp_path: Path, text: str, word: str) -> None:
    (tmp_path / "pack.json").write_text(text)
    with pytest.raises(ConfigError, match=word) as caught:
        load_pack(tmp_path / "pack.json")
    assert "pack.json" in str(caught.value)


def test_a_pack_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="can't be read"):
        load_pack(tmp_path / "none.json")


def test_an_attack_on_a_task_of_two_steps_hands_in_both() -> None:
    class TwoSteps(TASK):  # type: ignore[misc, valid-type]
        id = "two-steps"
        steps = (TASK.steps[0], TASK.steps[0])

    attack = Attack(name="x", calls=[{"name": "submit", "arguments": {}}])
    assert [call["name"] for call in fitted(attack, TwoSteps).calls] == ["submit", "submit"]


def test_a_timed_task_may_spread_where_it_pays_and_nowhere_else() -> None:
    legal, cheat = outcome(0.97, reward=1.0), outcome(0.03)
    assert verdict_on(legal, tolerance=0.05) == []
    assert "earned 0.97" in verdict_on(legal)[0]
    assert "earned 0.03" in verdict_on(cheat, tolerance=0.05)[0]
