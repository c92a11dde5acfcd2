"""Environments are found, named once, and a mistake in one names its file."""

import json
import os
import pickle
import subprocess
import sys
from pathlib import Path

import gymnasium as gym
import pytest
from gymnasium.envs.registration import EnvSpec

import karotte_gym
from karotte_gym.errors import ConfigError
from karotte_gym.registration import load_task, register_project, register_shipped, registered_tasks

GOOD = """
from karotte_gym import AlwaysPassJudge, Step, Task
class Mine(Task):
    id = "{task_id}"
    steps = (Step("Write a file.", ("/workdir/x",), AlwaysPassJudge()),)
"""


@pytest.fixture
def project(tmp_path: Path):  # type: ignore[no-untyped-def]
    """A project's folder; what it registers is taken back."""
    before = dict(gym.registry)
    yield tmp_path
    gym.registry.clear()
    gym.registry.update(before)


def add(project: Path, folder: str, text: str) -> None:
    (project / "envs" / folder).mkdir(parents=True)
    (project / "envs" / folder / "__init__.py").write_text(text)


def test_what_ships_is_registered_with_entry_points_and_arguments_of_text() -> None:
    spec = gym.spec("karotte/q3-revenue")
    assert spec.entry_point == "karotte_gym.env:KarotteEnv"
    assert spec.nondeterministic
    assert [wrapper.name for wrapper in spec.additional_wrappers] == ["CustodyGrading", "MisbehaviorToZero"]
    assert EnvSpec.from_json(spec.to_json()).id == spec.id
    json.dumps(spec.kwargs)


def test_registering_again_changes_nothing_and_warns_of_nothing(recwarn: pytest.WarningsRecorder) -> None:
    before = dict(gym.registry)
    register_shipped()
    assert dict(gym.registry) == before
    assert not recwarn


def test_a_spec_survives_pickling_and_can_be_made_again() -> None:
    with gym.make("karotte/q3-revenue", generated=True) as env:
        assert env.spec is not None
        again = gym.make(pickle.loads(pickle.dumps(env.spec)))
    with again:
        assert again.spec == env.spec
        assert str(again) == str(env)
    with gym.make(EnvSpec.from_json(env.spec.to_json())) as from_text:
        assert str(from_text) == str(env)


def test_the_prefix_registers_in_a_fresh_process() -> None:
    code = "import gymnasium as g; print(g.make('karotte_gym:karotte/q3-revenue').unwrapped.task_class.id)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.stdout.strip(), done.returncode) == ("q3-revenue", 0), done.stderr


def test_a_project_registers_its_folders_and_they_load_in_any_process(project: Path) -> None:
    add(project, "my_task", GOOD.format(task_id="my-task"))
    assert register_project(project) == ["karotte/my-task"]
    assert register_project(project) == ["karotte/my-task"]
    reference = registered_tasks()["my-task"]
    code = f"from karotte_gym.registration import load_task; print(load_task({reference!r}).id)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "my-task"


def test_a_name_that_is_taken_is_refused_with_both_places(project: Path) -> None:
    add(project, "q3_revenue", GOOD.format(task_id="q3-revenue"))
    with pytest.raises(ConfigError, match=r"already registered from karotte_gym\.envs\.q3_revenue"):
        register_project(project)


def test_an_empty_project_is_refused(project: Path) -> None:
    with pytest.raises(ConfigError, match="holds no environment"):
        register_project(project)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("x = (", "does not load: SyntaxError"),
        ("import nowhere_at_all", "does not load: ModuleNotFoundError"),
        ("x = 1", "names 0 Task classes"),
        (GOOD.format(task_id="another-name"), "named for 'broken'"),
        (GOOD.format(task_id="Bad_Id"), "must be like"),
        (GOOD.format(task_id="broken-v2"), "must be like"),
        (GOOD.format(task_id="broken").replace('("/workdir/x",)', '"/workdir/x"'), "must be a tuple"),
        (GOOD.format(task_id="broken").replace("/workdir/x", "/etc/../x"), "must be absolute"),
        (GOOD.format(task_id="broken").replace("AlwaysPassJudge()", "None"), "judge must be a Judge"),
    ],
)
def test_a_task_that_is_wrong_is_named_with_its_folder(project: Path, text: str, sentence: str) -> None:
    add(project, "broken", text)
    register_project(project)
    with pytest.raises(ConfigError, match=sentence) as caught:
        load_task("broken")
    assert "broken" in str(caught.value)


@pytest.mark.parametrize("name", ["no-such-task", "", "karotte/none", 7, None])
def test_an_unknown_task_is_answered_with_what_there_is(name: object) -> None:
    with pytest.raises(ConfigError, match=r"q3-revenue"):
        load_task(name)  # type: ignore[arg-type]


def test_an_unknown_environment_is_gymnasiums_own_error() -> None:
    with pytest.raises(gym.error.NameNotFound):
        gym.make("karotte/no-such-task")


def test_shipped_folders_hold_what_an_environment_needs() -> None:
    for task_id in registered_tasks():
        folder = load_task(task_id).folder()
        assert os.path.exists(folder / "solution.json"), folder
        assert len(list((folder / "attacks").glob("*.json"))) >= 5, folder
        instructions = " ".join(step.instructions for step in load_task(task_id).steps)
        for step in load_task(task_id).steps:
            assert all(path in instructions for path in step.submission_paths)


def test_the_version_is_the_packages() -> None:
    from importlib import metadata

    assert karotte_gym.__version__ == metadata.version("karotte-gym")


@pytest.mark.parametrize("path", [None, 7, ""])
def test_a_project_that_is_no_path_is_refused(path: object) -> None:
    with pytest.raises(ConfigError, match="named by its folder"):
        register_project(path)  # type: ignore[arg-type]


def test_an_environments_own_folder_as_a_project_is_told_to_give_its_parent(project: Path) -> None:
    add(project, "my_task", GOOD.format(task_id="my-task"))
    with pytest.raises(ConfigError, match=f"give its parent folder {project / 'envs'}"):
        register_project(project / "envs" / "my_task")


def test_a_task_without_an_id_is_told_the_line_to_write(project: Path) -> None:
    add(project, "x_task", GOOD.format(task_id="x-task").replace('    id = "x-task"\n', ""))
    register_project(project)
    with pytest.raises(ConfigError, match='class Mine has no id: write id = "x-task"') as caught:
        load_task("x-task")
    assert "_karotte_env_" not in str(caught.value)
