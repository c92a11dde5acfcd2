"""What the environment does around a machine: who pays, what ends an episode, what raises, what is left."""

# ruff: noqa: ARG001 - `world` puts machines in memory in place
from __future__ import annotations

import gc
import json
import pickle
from pathlib import Path
from typing import Any

import gymnasium as gym
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from karotte_gym.wrappers import CustodyGrading, MisbehaviorToZero
from memory_sandbox import World

from karotte_gym import ConfigError, GradingError, MachineError, StudentMisbehavior
from karotte_gym.env import KarotteEnv
from karotte_gym.errors import CallRefused, MachineDied
from karotte_gym.sandbox.contract import CommandResult
from karotte_gym.transcript import Transcript

BASH = {"name": "bash", "arguments": {"command": "true"}}
SUBMIT = {"name": "submit", "arguments": {"message": "done"}}


@pytest.fixture
def env(world: World):  # type: ignore[no-untyped-def]
    """As `gym.make` gives it."""
    made = gym.make("karotte/q3-revenue")
    yield made
    made.close()


def test_an_episode_pays_the_score_at_its_end_and_destroys_the_student_machine_before_grading(env, world) -> None:
    obs, info = env.reset(seed=7)
    assert "answer.txt" in obs["content"]
    assert info["messages"][-1] == {"role": "user", "content": obs["content"]}
    assert {"messages", "tools", "task_id", "run_id", "runtime", "contracts"} == info.keys()
    _, reward, terminated, truncated, info = env.step(BASH)
    assert (reward, terminated, truncated) == (0.0, False, False)
    assert {"exit_code", "timed_out", "truncated", "duration_s"} == info["tool"].keys()
    assert [message["role"] for message in info["messages"]] == ["assistant", "tool"]
    student = world.of("student")[0]
    _, reward, terminated, truncated, info = env.step(SUBMIT)
    assert (reward, terminated, truncated) == (1.0, True, False)
    assert student.closed
    assert student.ended_sessions == 1
    assert (info["score"], info["scoring"], info["misbehavior"]) == (1.0, {"reason": "right"}, None)
    assert info["record"]["steps"][0]["criterion"]["judge"] == "ExecutableJudge"
    assert info["record"]["claimed"] == "done"
    json.dumps(info)


def test_the_grader_gets_the_copy_and_the_script_and_never_the_students_machine(env, world) -> None:
    env.reset()
    env.step(BASH)
    assert [prefetch.spec.role for prefetch in world.prefetches] == ["grader"]
    env.step(SUBMIT)
    (scored,) = world.scored
    assert scored["files"] == {"/submission/workdir/data/answer.txt": b"63148\n"}
    assert scored["root_data_dir"] == "/root_data"
    drive = dict(world.of("grader")[0].spec.drive)
    assert [path.name for path in Path(drive["grade"]).iterdir()] == ["grade.py"]
    assert "root_data" not in dict(world.of("student")[0].spec.drive)


def test_the_bare_environment_pays_nothing_and_grades_nothing(world: World) -> None:
    with KarotteEnv("q3-revenue") as env:
        env.reset()
        _, reward, terminated, _, info = env.step(SUBMIT)
        assert (reward, terminated, info["score"]) == (0.0, True, None)
        assert "a submission was taken but not graded" in info["record"]["exceptions"]
    assert not world.scored


def test_misbehavior_raises_from_the_bare_environment_and_is_0_from_the_made_one(env, world) -> None:
    world.refusal = StudentMisbehavior("custody", "a symbolic link at /workdir/data/answer.txt")
    env.reset()
    _, reward, terminated, truncated, info = env.step(SUBMIT)
    assert (reward, terminated, truncated, info["score"]) == (0.0, True, False, 0.0)
    assert info["misbehavior"] == "a symbolic link at /workdir/data/answer.txt"
    assert info["record"]["misbehavior_kind"] == "custody"
    assert all(prefetch.cancelled for prefetch in world.prefetches)
    bare = env.unwrapped
    bare.reset()
    with pytest.raises(StudentMisbehavior, match="symbolic link"):
        bare.step(SUBMIT)
    assert bare.episode.over


@pytest.mark.parametrize(
    ("cause", "kind"), [("exited", "machine_ended"), ("silent", "machine_silent"), ("protocol", "machine_protocol")]
)
@pytest.mark.parametrize("call", [BASH, SUBMIT])
def test_a_machine_that_dies_under_the_student_is_its_misbehavior_and_the_next_reset_works(
    env, world, cause, kind, call
) -> None:
    env.reset()
    with world.dying("student", cause):
        _, reward, terminated, _, info = env.step(call)
    assert (reward, terminated, info["record"]["misbehavior_kind"]) == (0.0, True, kind)
    assert "went away" in info["misbehavior"]
    env.reset()
    assert env.step(SUBMIT)[1] == 1.0


def test_a_machine_that_does_not_start_raises_and_is_no_zero(env, world) -> None:
    world.start_error = MachineError("no QEMU here")
    with pytest.raises(MachineError, match="no QEMU"):
        env.reset()
    world.start_error = None
    env.reset()
    assert env.step(SUBMIT)[1] == 1.0


def test_a_grader_machine_that_does_not_start_is_no_zero(env, world) -> None:
    env.reset()
    world.start_error = MachineDied("no grader", cause="exited")
    with pytest.raises(GradingError, match="no grader"):
        env.step(SUBMIT)
    world.start_error = None
    env.reset()
    assert env.step(SUBMIT)[1] == 1.0


def test_a_submission_that_kills_two_graders_scores_0_and_one_that_kills_one_is_graded(env, world) -> None:
    env.reset()
    with world.dying("grader", "exited"):
        _, reward, _, _, info = env.step(SUBMIT)
    assert (reward, info["misbehavior"]) == (0.0, None)
    assert "grader machine ended" in info["scoring"]["reason"]
    assert len(world.of("grader")) == 2


def test_an_agent_that_fails_at_custody_is_a_zero_since_the_student_may_know_why(env, world) -> None:
    env.reset()
    world.refusal = CallRefused("internal", "No space left on device")
    _, reward, terminated, _, info = env.step({"name": "submit", "arguments": {}})
    assert (reward, terminated) == (0.0, True)
    assert "agent failed" in info["misbehavior"]
    assert info["record"]["misbehavior_kind"] == "agent_failed"


def test_a_call_of_ours_that_is_none_raises_and_is_no_zero(env, world) -> None:
    env.reset()
    world.refusal = CallRefused("bad-params", "paths must be a list")
    with pytest.raises(MachineError, match="ours"):
        env.step({"name": "submit", "arguments": {}})


@pytest.mark.parametrize("result", [b"", b"junk", b'{"score": NaN}', b'{"score": true}'])
def test_rubbish_from_the_scoring_script_is_a_zero_with_its_reason(env, world, result) -> None:
    world.result = result
    env.reset()
    _, reward, terminated, _, info = env.step(SUBMIT)
    assert (reward, terminated, info["misbehavior"]) == (0.0, True, None)
    assert "scoring script" in info["scoring"]["reason"]


def test_calls_after_the_end_change_nothing_and_pay_nothing(env, world) -> None:
    env.reset()
    env.step(SUBMIT)
    obs, reward, terminated, truncated, info = env.step(SUBMIT)
    assert (reward, terminated, truncated, info["score"]) == (0.0, True, False, 1.0)
    assert "over" in obs["content"]
    assert len(world.scored) == 1


def test_a_step_before_the_first_reset_is_refused(world: World) -> None:
    with KarotteEnv("q3-revenue") as env, pytest.raises(gym.error.ResetNeeded):
        env.step(BASH)


def test_truncation_ends_the_episode_without_a_score(world: World) -> None:
    with gym.make("karotte/q3-revenue", max_episode_steps=2) as env:
        env.reset()
        env.step(BASH)
        _, reward, terminated, truncated, info = env.step(BASH)
        assert (reward, terminated, truncated, info["score"]) == (0.0, False, True, 0.0)
        assert world.of("student")[0].closed
        assert "before anything was handed in" in " ".join(info["record"]["exceptions"])


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text() | st.integers(), inner),
    max_leaves=8,
)
ALMOST = st.fixed_dictionaries({"name": st.just("bash") | ANYTHING, "arguments": ANYTHING})


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(action=ANYTHING | ALMOST)
def test_any_object_whatsoever_is_answered(world: World, action: Any) -> None:
    with KarotteEnv("q3-revenue") as env:
        env.reset()
        obs, reward, terminated, truncated, info = env.step(action)
        assert obs in env.observation_space
        assert (reward, terminated, truncated) == (0.0, False, False)
        json.dumps(info)


@pytest.mark.parametrize("error", [RuntimeError("no repr"), SystemExit(3), GeneratorExit()])
@pytest.mark.parametrize("base", [dict, str, list, object])
def test_an_object_that_fights_back_is_answered(world: World, base: type, error: BaseException) -> None:
    def fights(*_: object) -> Any:
        raise error

    hostile = type("Hostile", (base,), {"__repr__": fights, "__str__": fights, "__getitem__": fights})
    with KarotteEnv("q3-revenue") as env:
        env.reset()
        assert env.step(hostile())[0] in env.observation_space


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        (CommandResult(b"out\n", 0, False, 0, 0.1), "out\n"),
        (CommandResult(b"", 0, False, 0, 0.1), ""),
        (CommandResult(b"out\n", 3, False, 0, 0.1), "out\n[exit code 3]"),
        (CommandResult(b"part", None, True, 0, 2.0), "part\n[timed out after 2.0 s]"),
        (CommandResult(b"", None, False, 0, 0.1, note="the shell ended"), "[the shell ended]"),
    ],
)
def test_the_observation_says_what_happened(env, world, answer, text) -> None:
    world.answer = answer
    env.reset()
    obs, *_ = env.step(BASH)
    assert obs["content"] == text


def test_a_flood_of_output_is_an_observation_of_the_space(env, world) -> None:
    world.answer = CommandResult(b"\x00\xff\x1b[31m" * 200_000, 0, False, 10, 0.1)
    env.reset()
    obs, _, _, _, info = env.step(BASH)
    assert obs in env.observation_space
    assert info["tool"]["truncated"] is True


@pytest.mark.parametrize("asked", [1e308, 10**25, 99_999])
def test_a_timeout_over_the_tasks_own_is_bounded_or_refused(env, world, asked) -> None:
    env.reset()
    env.step({"name": "bash", "arguments": {"command": "true", "timeout": asked}})
    assert all(timeout_s <= env.unwrapped.task_class.limits.max_command_timeout_s for _, timeout_s, _ in world.asked)


def test_generated_orders_repeat_with_the_seed_and_the_sum_stays_on_the_host(world: World) -> None:
    seen = []
    with gym.make("karotte/q3-revenue", generated=True) as env:
        for seed in (1, 1, 2):
            env.reset(seed=seed)
            student = world.of("student")[-1]
            seen.append(student.files["/workdir/data/orders.csv"])
            env.step(SUBMIT)
            (expected,) = (v for k, v in world.scored[-1]["files"].items() if k == "/grading_data/q3_revenue.txt")
            assert world.scored[-1]["root_data_dir"] == "/grading_data"
            assert all(expected.strip() not in data for data in student.files.values())
    assert seen[0] == seen[1] != seen[2]


def test_a_reset_without_seed_leaves_a_seed_in_the_record_that_repeats_it(world: World) -> None:
    with gym.make("karotte/q3-revenue", generated=True) as env:
        env.reset()
        first = world.of("student")[-1].files
        seed = env.step(SUBMIT)[4]["record"]["seed"]
        env.reset(seed=seed)
        assert world.of("student")[-1].files == first


def test_options_reach_the_task_and_wrong_ones_are_named(world: World) -> None:
    with gym.make("karotte/q3-revenue") as env:
        env.reset(options={"task_config": {"generated": True}})
        assert world.of("student")[-1].files
        with pytest.raises(ConfigError, match="genrated"):
            env.reset(options={"task_config": {"genrated": True}})
        with pytest.raises(ConfigError, match="task_confg"):
            env.reset(options={"task_confg": {}})


@pytest.mark.parametrize(
    ("arguments", "word"),
    [({"runtime": "docker"}, "docker"), ({"render_mode": "rgb"}, "rgb"), ({"task_config": {"x": 1}}, "x")],
)
def test_wrong_arguments_are_refused_when_the_environment_is_made(arguments, word) -> None:
    with pytest.raises(ConfigError, match=word):
        KarotteEnv("q3-revenue", **arguments)


def test_close_is_idempotent_and_an_abandoned_environment_leaves_no_machine(world: World) -> None:
    env = gym.make("karotte/q3-revenue")
    env.reset()
    env.close()
    env.close()
    env.reset()
    assert env.step(SUBMIT)[1] == 1.0
    env.reset()
    machine = world.machines[-1]
    del env
    gc.collect()
    assert machine.closed


def test_a_run_directory_holds_transcript_record_and_submission_and_is_never_reused(world: World, tmp_path) -> None:
    with gym.make("karotte/q3-revenue", run_dir=str(tmp_path / "runs")) as env:
        for _ in range(2):
            env.reset()
            env.step({"name": "bash", "arguments": {"command": "echo \ud83d"}})
            info = env.step(SUBMIT)[4]
            transcript = Transcript.read(info["transcript_path"])
            assert [event.tool for event in transcript.events] in (["bash", "submit"], ["", "submit"])
            assert transcript.finished
        env.reset()
        env.step(BASH)
    directories = sorted((tmp_path / "runs").iterdir())
    assert len(directories) == 3
    records = [json.loads((path / "record.json").read_text()) for path in directories]
    assert sorted(record["score"] is None for record in records) == [False, False, True]
    assert sum((path / "submission-1" / "0").exists() for path in directories) == 2


def test_infos_share_no_object_and_can_be_batched_whatever_is_in_them(env, world) -> None:
    env.reset()
    infos = [env.step(BASH)[4]]
    world.answer = CommandResult(b"", None, True, 0, 0.1)
    infos.append(env.step(BASH)[4])
    assert infos[0]["tool"] is not infos[1]["tool"]
    batched: dict[str, Any] = {}
    vector = gym.vector.VectorEnv()
    vector.num_envs = 2
    for index, info in enumerate(infos):
        vector._add_info(batched, info, index)  # an int and then None would raise here
    assert list(batched["tool"]["exit_code"]) == [0, None]


def test_the_wrappers_can_be_stacked_by_hand(world: World) -> None:
    with MisbehaviorToZero(CustodyGrading(KarotteEnv("q3-revenue"))) as env:
        env.reset()
        assert env.step(SUBMIT)[1] == 1.0


def test_rendering_shows_the_episode(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    with gym.make("karotte/q3-revenue", render_mode="ansi") as env:
        env.reset()
        env.step(BASH)
        assert "> bash" in env.render()
    assert capsys.readouterr().out == ""
    with gym.make("karotte/q3-revenue", render_mode="human") as env:
        env.reset()
        env.step(BASH)
        assert env.render() is None
    assert "> bash" in capsys.readouterr().out


def test_a_made_environment_can_be_made_again_from_its_pickled_spec(env, world) -> None:
    with gym.make(pickle.loads(pickle.dumps(env.spec))) as again:
        again.reset()
        assert again.step(SUBMIT)[1] == 1.0


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"generated": "no"}, "generated must be True or False"),
        ({"generated": 1}, "generated must be True or False"),
        ({"use_cgroups": "no"}, "use_cgroups must be True or False"),
        ({"test_hooks": 3}, "test_hooks must be True or False"),
        ({"task_config": ["generated"]}, "must be a mapping such as"),
        ({"task_config": ""}, "must be a mapping such as"),
        ({"task_config": {"genrated": True}}, "there is no 'genrated'; there are: generated"),
        ({"run_dir": 7}, "run_dir must be a path"),
        ({"run_dir": "/proc/x"}, "/proc/x"),
        ({"run_dir": __file__}, "test_env_episode.py"),
        ({"run_dir": "a\0b"}, "run_dir"),
    ],
)
def test_an_argument_of_the_wrong_form_is_told_the_right_one(arguments, sentence) -> None:
    with pytest.raises(ConfigError, match=sentence):
        gym.make("karotte/q3-revenue", **arguments)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"seed": True}, "seed must be a whole number"),
        ({"options": 7}, "must be a dict such as"),
        ({"options": 0}, "must be a dict such as"),
        ({"options": ((1, {}), ())}, "must be a dict such as"),
        ({"options": {1: 2, "a": 3}}, r"unknown reset options \[1, 'a'\]"),
        ({"options": {"task_config": 5}}, "must be a mapping such as"),
    ],
)
def test_a_reset_with_an_argument_of_the_wrong_form_is_told_the_right_one(world: World, arguments, sentence) -> None:
    with gym.make("karotte/q3-revenue") as env:
        with pytest.raises(ConfigError, match=sentence):
            env.reset(**arguments)
        env.reset()
        assert env.step(SUBMIT)[1] == 1.0


def test_a_run_directory_that_went_away_and_can_not_be_made_again_is_named(world: World, tmp_path: Path) -> None:
    with gym.make("karotte/q3-revenue", run_dir=str(tmp_path / "runs")) as env:
        (tmp_path / "runs").rmdir()
        (tmp_path / "runs").write_text("a file")
        with pytest.raises(ConfigError, match="runs"):
            env.reset()
