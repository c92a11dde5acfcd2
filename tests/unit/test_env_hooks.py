"""Hooks, the store, combined scores, judges that stop a task: in which order, with what, and who is to blame."""

# ruff: noqa: ARG001, ARG005 - `world` puts machines in memory in place
from __future__ import annotations

from typing import Any, ClassVar

import pytest
from karotte_gym.wrappers import CustodyGrading, MisbehaviorToZero
from memory_sandbox import World

from karotte_gym import ConfigError, Evidence, Judge, ProtectedStore, Scoring, Step, Task
from karotte_gym.env import KarotteEnv
from karotte_gym.errors import CallRefused, GradingError, MachineDied

SUBMIT = {"name": "submit", "arguments": {"message": "my last words"}}
BASH = {"name": "bash", "arguments": {"command": "true"}}


class Watching(Judge):
    """Keeps what it is given; scores what the test says."""

    seen: ClassVar[list[Evidence]] = []
    scorings: ClassVar[list[Any]] = []

    def judge(self, evidence: Evidence) -> Scoring:
        self.seen.append(evidence)
        scoring = self.scorings.pop(0) if self.scorings else Scoring(0.5)
        if isinstance(scoring, Exception):
            raise scoring
        return scoring  # type: ignore[no-any-return]


def before(sandbox: Any, store: ProtectedStore) -> None:
    store["before"] = {"session": sandbox.session, "alive": not sandbox.closed, "collected": "collected" in store}


def after(sandbox: Any, store: ProtectedStore, scoring: Scoring | None) -> None:
    alive = None if sandbox is None else not sandbox.closed
    store["after"] = [*store.get("after", []), {"alive": alive, "score": scoring and scoring.score}]


class Hooked(Task):
    id = "hooked"
    steps = tuple(Step(f"Step {n}.", (f"/workdir/{n}",), Watching(), pre_scoring_hook=before, post_hook=after) for n in (1, 2))


@pytest.fixture
def env(world: World):  # type: ignore[no-untyped-def]
    Watching.seen.clear()
    Watching.scorings.clear()
    made = MisbehaviorToZero(CustodyGrading(KarotteEnv(f"{__name__}:Hooked")))
    yield made
    made.close()


def test_hooks_run_between_the_end_of_the_session_and_the_next_instructions(env, world) -> None:
    env.reset(seed=5)
    env.step(BASH)
    env.step(SUBMIT)
    evidence = Watching.seen[0]
    assert evidence.store["before"] == {"session": False, "alive": True, "collected": False}
    assert "after" in evidence.store and evidence.store["after"] == [{"alive": True, "score": 0.5}]
    assert evidence.store is env.unwrapped.episode.task.store and evidence.seed == 5
    env.step(SUBMIT)
    assert evidence.store["after"][1] == {"alive": None, "score": 0.5}, "the machine goes before the last grading"


def test_a_judge_sees_the_chat_of_its_step_and_no_other(env, world) -> None:
    env.reset()
    env.step(BASH)
    env.step(SUBMIT)
    env.step(SUBMIT)
    first, second = (evidence.messages for evidence in Watching.seen)
    assert [message["role"] for message in first] == ["user", "assistant", "tool", "assistant", "tool"]
    assert first[0]["content"] == "Step 1." and "my last words" in str(first[-2])
    assert [message["role"] for message in second] == ["user", "assistant", "tool"] and second[0]["content"] == "Step 2."


def test_the_store_is_new_with_every_episode(env, world) -> None:
    for _ in range(2):
        env.reset()
        assert dict(env.unwrapped.episode.task.store) == {}
        env.unwrapped.episode.task.store["kept"] = 1


def test_a_judge_can_stop_the_task(env, world) -> None:
    Watching.scorings[:] = [Scoring(0.25, stop_task=True)]
    env.reset()
    _, reward, terminated, truncated, info = env.step(SUBMIT)
    assert (reward, terminated, truncated, len(info["record"]["steps"])) == (0.25, True, False, 1)
    assert world.machines[0].closed and "the judge stopped the task after step 1" in info["record"]["exceptions"]
    assert Watching.seen[0].store["after"] == [{"alive": True, "score": 0.25}]


@pytest.mark.parametrize("value", [float("nan"), 2.0, -0.1, True, "1", None])
def test_a_combination_that_is_no_score_is_the_authors_mistake(env, world, monkeypatch, value) -> None:
    monkeypatch.setattr(Hooked, "combine_scores", lambda self, scorings: value)
    env.reset()
    with pytest.raises(ConfigError, match="combine_scores must return a number from 0 to 1"):
        for _ in range(2):
            env.step(SUBMIT)


def test_a_task_may_combine_its_scores(env, world, monkeypatch) -> None:
    monkeypatch.setattr(Hooked, "combine_scores", lambda self, scorings: min(each.score for each in scorings))
    Watching.scorings[:] = [Scoring(0.25), Scoring(1.0)]
    env.reset()
    env.step(SUBMIT)
    assert env.step(SUBMIT)[1] == 0.25


def broken(*arguments: Any) -> None:
    raise ZeroDivisionError("one by none")


class NoText(Exception):
    """Has no text of its own."""

    def __str__(self) -> str:
        raise SystemExit(3)


def overflowing(*arguments: Any) -> None:
    arguments[1]["said"] = "x" * (5 << 20)


def given_a_nul(*arguments: Any) -> None:
    raise CallRefused("bad-params", "argv must be a list of at least one text, without NUL")


def without_text(*arguments: Any) -> None:
    raise NoText


@pytest.mark.parametrize("name", ["pre_scoring_hook", "post_hook"])
@pytest.mark.parametrize("hook", [broken, overflowing, given_a_nul, without_text])
def test_a_hook_that_stumbles_over_what_was_left_is_a_zero_and_a_warning_with_the_line(
    env, world, monkeypatch, name, hook
) -> None:
    monkeypatch.setattr(Hooked, "steps", (Step("Do.", ("/workdir/a",), Watching(), **{name: hook}),))
    env.reset()
    line = hook.__code__.co_firstlineno + 1
    with pytest.warns(RuntimeWarning, match=rf"test_env_hooks.py:{line}: {name} of step 1 of task hooked failed: ") as warned:
        obs, reward, terminated, truncated, info = env.step(SUBMIT)
    assert (reward, terminated, truncated, info["score"]) == (0.0, True, False, 0.0)
    assert info["misbehavior"].startswith(f"{name} of step 1 could not work with what was left behind (")
    assert (info["record"]["misbehavior_kind"], info["record"]["error"]) == ("hook_failed", None)
    assert any(f"{name} of step 1 failed at test_env_hooks.py:{line}" in note for note in info["record"]["exceptions"])
    assert world.machines[0].closed and "one by none" not in obs["content"] + info["misbehavior"]
    assert len(warned) == 1
    env.reset()


@pytest.mark.parametrize("error", [ConfigError("the task's file is gone"), GradingError("no answer"), KeyboardInterrupt()])
def test_what_a_hook_raises_on_purpose_is_no_score(env, world, monkeypatch, error) -> None:
    def raises(*arguments: Any) -> None:
        raise error

    monkeypatch.setattr(Hooked, "steps", (Step("Do.", ("/workdir/a",), Watching(), pre_scoring_hook=raises),))
    env.reset()
    with pytest.raises(type(error)):
        env.step(SUBMIT)


def test_what_pre_hook_raises_comes_before_the_student_and_raises(env, world, monkeypatch) -> None:
    monkeypatch.setattr(Hooked, "pre_hook", broken)
    with pytest.raises(ZeroDivisionError):
        env.reset()


@pytest.mark.parametrize("error", [MachineDied("gone", cause="exited"), CallRefused("no-file", "removed by the student")])
def test_what_the_machine_does_to_a_hook_is_the_students_doing(env, world, monkeypatch, error) -> None:
    def ends(sandbox: Any, store: ProtectedStore) -> None:
        raise error

    monkeypatch.setattr(Hooked, "steps", (Step("Do.", ("/workdir/a",), Watching(), pre_scoring_hook=ends),))
    env.reset()
    _, reward, terminated, _, info = env.step(SUBMIT)
    assert (reward, terminated) == (0.0, True) and info["misbehavior"]


@pytest.mark.parametrize("error", [MachineDied("gone", cause="exited"), CallRefused("internal", "no space")])
def test_what_a_grader_machine_does_to_a_judge_is_not(env, world, error) -> None:
    Watching.scorings[:] = [error]
    env.reset()
    with pytest.raises(GradingError, match="the judge Watching failed"):
        env.step(SUBMIT)


def test_the_store_copies_what_it_keeps_and_is_bounded() -> None:
    store = ProtectedStore()
    value = {"list": [1]}
    store["a"] = value
    value["list"].append(2)
    store["a"]["list"].append(3)
    assert store["a"] == {"list": [1]} and store.get("b") is None and "b" not in store and list(store) == ["a"]
    store.set("a", 1)
    assert store["a"] == 1
    with pytest.raises(ValueError, match="bytes"):
        store["big"] = "x" * (5 << 20)
    with pytest.raises(TypeError):
        store["f"] = broken
    with pytest.raises(TypeError):
        store[1] = 1  # type: ignore[index]
    with pytest.raises(ValueError, match="not JSON"):
        store["nan"] = float("nan")
    with pytest.raises(ValueError, match="the most"):
        for number in range(2000):
            store[str(number)] = 1


def test_what_tools_store_takes_no_room_from_hooks() -> None:
    store = ProtectedStore()
    tools = store.for_tools()
    for number in range(20):
        tools[f"big{number}"] = "x" * 200_000
    with pytest.raises(ValueError, match="bytes of tools"):
        tools["more"] = "x" * 200_000
    with pytest.raises(ValueError, match="the most"):
        for number in range(2000):
            tools[str(number)] = 1
    store["x"] = "y" * 4_000_000
    assert tools["x"] == store["x"] and store["big0"] == tools["big0"], "the values are shared"
    with pytest.raises(ValueError, match="would hold"):
        store["z"] = "y" * 200_000


def test_a_tool_is_given_the_tools_room(env, world) -> None:
    env.reset()
    episode = env.unwrapped.episode
    env.unwrapped._call_site(episode).context.store["a"] = "x" * 4_000_000
    episode.task.store["b"] = "x" * 4_000_000
    env.step(SUBMIT)
    assert Watching.seen[0].store["a"] == Watching.seen[0].store["b"]


def test_a_key_counts_against_whoever_wrote_it_last() -> None:
    store = ProtectedStore()
    tools = store.for_tools()
    store["x"] = "y" * 4_000_000
    tools["x"] = "y" * 4_000_000
    store["z"] = "y" * 4_000_000
    with pytest.raises(ValueError, match="would hold"):
        store["x"] = "y" * 4_000_000
    del store["z"]
    store["x"] = "y" * 4_000_000
    tools["own"] = "y" * 4_000_000
    assert set(store) == {"x", "own"}


@pytest.mark.parametrize("view", [ProtectedStore(), ProtectedStore().for_tools()])
def test_keys_count_and_are_whole_text(view: ProtectedStore) -> None:
    with pytest.raises(ValueError, match="surrogates"):
        view["\ud800"] = 1
    with pytest.raises(ValueError, match="bytes"):
        view["k" * (5 << 20)] = 1
    assert len(view) == 0
