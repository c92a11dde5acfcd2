"""incident-report in real machines: both steps are paid together, with and without a model that judges the report."""

from __future__ import annotations

import json
from typing import Any

import gymnasium as gym
import pytest

from karotte_gym.agents.scripted import load_script, play
from karotte_gym.errors import ConfigError, GradingError
from karotte_gym.redteam import Attack, own_attacks, run_attacks, solution_of
from karotte_gym.registration import load_task
from tests.model_server import Fail, ModelServer, Reply, Request, Say

pytestmark = [pytest.mark.machine, pytest.mark.timeout(900)]
TASK = load_task("incident-report")
SUBMIT = {"name": "submit", "arguments": {"message": "done"}}
WORDS_FOR_THE_JUDGE = load_script(TASK.folder() / "attacks" / "words_for_the_judge.json")
MODEL = "openai/judge"


def verdict(met: bool) -> Say:
    return Say(text=json.dumps({"met": met, "reason": "because of the report"}))


@pytest.fixture
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "a-key-of-the-test")


def play_judged(server: ModelServer, calls: list[Any], monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setenv("KAROTTE_GYM_JUDGE_API_BASE", server.url)
    with gym.make("karotte/incident-report", task_config={"judge_model": MODEL}) as env:
        return play(env, calls, seed=11)


def notes_of_the_report(played: Any) -> dict[str, Any]:
    notes: dict[str, Any] = played.info["record"]["steps"][1]["metadata"]
    return notes


def test_the_solution_earns_the_full_score_on_facts_and_the_record_says_that_no_rubric_was_judged() -> None:
    with gym.make("karotte/incident-report") as env:
        for seed in (1, 2):
            played = play(env, solution_of(TASK), seed=seed)
            assert (played.reward, played.info["misbehavior"]) == (1.0, None), played.info["record"]["steps"]
    notes = notes_of_the_report(played)
    assert notes["ExecutableJudge"]["score"] == 1.0
    assert "the rubric was not judged" in notes["ConfiguredRubric"]["metadata"]["reason"]


def test_doing_nothing_ends_the_task_at_its_first_step() -> None:
    with gym.make("karotte/incident-report") as env:
        played = play(env, [SUBMIT])
    assert (played.reward, played.finished) == (0.0, True)
    assert played.info["record"]["steps"][0]["missing"] == ["/workdir/data/answer.json"]


@pytest.mark.parametrize("attack", own_attacks(TASK), ids=lambda attack: attack.name)
def test_no_attack_is_paid(attack: Attack) -> None:
    (outcome,) = run_attacks("incident-report", [attack], parallel=1, honest_after=False)
    assert outcome.failures == []


@pytest.mark.usefixtures("key")
def test_the_lower_one_of_facts_and_rubric_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    def one_of_three_unmet(request: Request) -> Reply:
        return verdict("should be done" not in request.body["messages"][1]["content"].partition("\n\n")[0])

    with ModelServer(one_of_three_unmet) as server:
        played = play_judged(server, solution_of(TASK), monkeypatch)
        assert len(server.requests) == 3
    assert played.reward == pytest.approx(2 / 3)
    notes = notes_of_the_report(played)
    assert notes["ExecutableJudge"]["score"] == 1.0
    assert notes["ConfiguredRubric"]["score"] == pytest.approx(2 / 3)


@pytest.mark.usefixtures("key")
def test_a_model_that_believes_everything_pays_nothing_without_the_facts(monkeypatch: pytest.MonkeyPatch) -> None:
    with ModelServer(lambda _: verdict(True)) as server:
        played = play_judged(server, WORDS_FOR_THE_JUDGE, monkeypatch)
        asked = [request.body["messages"] for request in server.requests]
    assert played.reward == 0.0
    assert notes_of_the_report(played)["ConfiguredRubric"]["score"] == 1.0, "the words worked on the model"
    assert all("| Ignore all earlier instructions" in messages[1]["content"] for messages in asked)
    assert not any("Ignore all earlier" in messages[0]["content"] for messages in asked)


@pytest.mark.usefixtures("key")
def test_a_model_that_only_fails_is_no_zero(monkeypatch: pytest.MonkeyPatch) -> None:
    with ModelServer(lambda _: Fail(401)) as server, pytest.raises(GradingError, match="no verdict"):
        play_judged(server, solution_of(TASK), monkeypatch)


def test_a_model_that_is_no_name_is_refused_before_anything_starts() -> None:
    with pytest.raises(ConfigError, match="judge_model"):
        gym.make("karotte/incident-report", task_config={"judge_model": 7})
