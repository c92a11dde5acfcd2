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
from karotte_gym import registration
from karotte_gym.errors import ConfigError
from karotte_gym.registration import load_task, register_project, register_shipped, registered_tasks

GOOD = """
from karotte_gym import AlwaysPassJudge, Step, Task
class Mine(Task):
    id = "{task_id}"
    steps = (Step("Write a file.", ("/workdir/x",), AlwaysPassJudge()),)
"""


SPAWN = """
import multiprocessing
import gymnasium
import karotte_gym

def make(spec):
    with gymnasium.make(spec) as env:
        return env.unwrapped.task_class.id

if __name__ == "__main__":
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        print(pool.apply(make, (gymnasium.spec("karotte/spawned-task"),)))
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


def test_a_folder_that_can_not_be_registered_is_named_after_all_others_are(project: Path) -> None:
    for folder in ("Bad_Name", "my_task", "q3_revenue"):
        add(project, folder, GOOD.format(task_id=folder.replace("_", "-")))
    with pytest.raises(ConfigError, match=r"(?s)Bad_Name.*must be named like.*; .*already registered from"):
        register_project(project)
    assert load_task("my-task").id == "my-task"


def test_one_broken_folder_stops_no_other_task_on_the_command_line(project: Path) -> None:
    add(project, "Bad_Name", GOOD.format(task_id="bad-name"))
    add(project, "my_task", GOOD.format(task_id="my-task"))
    add(project, "no_task", "x = (")
    add(project, "q3_revenue", GOOD.format(task_id="q3-revenue"))

    def command(*arguments: str) -> subprocess.CompletedProcess[str]:
        argv = [sys.executable, "-m", "karotte_gym.cli.main", *arguments, "--project", str(project)]
        return subprocess.run(argv, capture_output=True, text=True, check=False)

    listed = command("tasks", "list")
    assert listed.returncode == 1
    assert "karotte/my-task" in listed.stdout and "karotte/speedup" in listed.stdout
    places = {"Bad_Name": "must be named like", "no_task": "does not load: SyntaxError", "q3_revenue": "already registered"}
    named = {folder: [line for line in listed.stderr.splitlines() if f"envs/{folder}" in line] for folder in places}
    assert all(len(named[folder]) == 1 and reason in named[folder][0] for folder, reason in places.items()), listed.stderr
    assert len(listed.stderr.splitlines()) == len(places)
    assert command("check", "tools", "my-task").returncode == 0
    taken = command("check", "tools", "q3-revenue")  # of two, either would be a guess
    assert (taken.returncode, "already registered" in taken.stderr) == (2, True)


def test_a_task_whose_module_exits_ends_nothing_and_hides_no_other_task(project: Path) -> None:
    add(project, "exits", "import sys\nsys.exit(7)\n")
    add(project, "my_task", GOOD.format(task_id="my-task"))

    def command(*arguments: str) -> subprocess.CompletedProcess[str]:
        argv = [sys.executable, "-m", "karotte_gym.cli.main", *arguments, "--project", str(project)]
        return subprocess.run(argv, capture_output=True, text=True, check=False)

    listed = command("tasks", "list")
    assert (listed.returncode, "karotte/my-task" in listed.stdout) == (1, True), listed.stderr
    assert "envs/exits/__init__.py does not load: SystemExit: 7" in listed.stderr
    validated = command("validate", "exits")
    assert validated.returncode == 2
    assert "does not load: SystemExit: 7" in validated.stderr


def test_what_was_loaded_before_a_folder_failed_is_forgotten(project: Path) -> None:
    add(project, "half", "from . import helper\nraise SystemExit\n")
    helper = project / "envs" / "half" / "helper.py"
    helper.write_text("VALUE = 1\n")
    register_project(project)
    with pytest.raises(ConfigError, match="does not load: SystemExit"):
        load_task("half")
    assert [name for name in sys.modules if name.startswith("_karotte_env_") and "half" in name] == []
    helper.write_text("VALUE = 'another'\n")
    (project / "envs" / "half" / "__init__.py").write_text(
        "from .helper import VALUE\n" + GOOD.format(task_id="half").replace('"Write a file."', "VALUE")
    )
    assert load_task("half").steps[0].instructions == "another"


def test_a_module_that_exits_is_a_task_that_does_not_load(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "module_that_exits.py").write_text("raise SystemExit('no')")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ConfigError, match=r"module_that_exits\.py does not load: SystemExit: no"):
        load_task("module_that_exits:Task")
    assert "module_that_exits" not in sys.modules


def test_an_interrupt_while_a_task_loads_stays_an_interrupt(project: Path) -> None:
    add(project, "slow", "raise KeyboardInterrupt")
    register_project(project)
    with pytest.raises(KeyboardInterrupt):
        load_task("slow")
    assert [name for name in sys.modules if name.startswith("_karotte_env_") and "slow" in name] == []


def test_an_empty_project_is_refused(project: Path) -> None:
    with pytest.raises(ConfigError, match="holds no environment"):
        register_project(project)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("x = (", "does not load: SyntaxError"),
        ("import nowhere_at_all", "does not load: ModuleNotFoundError"),
        ("raise SystemExit", r"broken/__init__\.py does not load: SystemExit$"),
        ("import sys; sys.exit(3)", "does not load: SystemExit: 3"),
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


def test_a_project_whose_path_no_file_can_have_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"'/tmp/a\\x00b' can't be read: embedded null"):
        register_project("/tmp/a\0b")
    with pytest.raises(ConfigError, match=r"can't be read: File name too long"):
        register_project("/tmp/" + "a" * 300)


def test_a_folder_whose_name_is_too_long_for_an_id_is_named(project: Path) -> None:
    add(project, "a" * 65, GOOD.format(task_id="a" * 65))
    with pytest.raises(ConfigError, match="64 letters at most"):
        register_project(project)


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


def test_making_an_environment_whose_task_has_another_id_is_refused_as_well(project: Path) -> None:
    add(project, "mismatched", GOOD.format(task_id="another-name"))
    register_project(project)
    with pytest.raises(ConfigError, match=r"is named for 'mismatched', but its Task has the id 'another-name'"):
        gym.make("karotte/mismatched")


@pytest.mark.parametrize("folder", ["Bad_Name", "two__lines", "ends_v1", "1st"])
def test_a_folder_whose_name_is_no_id_is_refused_when_it_is_registered(project: Path, folder: str) -> None:
    add(project, folder, GOOD.format(task_id="whatever"))
    with pytest.raises(ConfigError, match=f"{folder}.* must be named like"):
        register_project(project)


def test_an_environments_own_tools_are_no_environment_though_they_are_a_package(project: Path) -> None:
    add(project, "my_task", GOOD.format(task_id="my-task"))
    add(project, "tools", "")
    assert register_project(project) == ["karotte/my-task"]


# Installed projects: real metadata in a folder on sys.path, as pip leaves it.


@pytest.fixture
def site(project: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder for installed distributions; what they register is taken back."""
    for name, empty in (("_problems", []), ("_origins", {}), ("_refused", {})):
        monkeypatch.setattr(registration, name, empty)
    monkeypatch.syspath_prepend(project)
    return project


def install(site: Path, name: str, value: str, entry: str = "", **environments: str) -> None:
    """A distribution with one entry point and a package of environments, named as the distribution is."""
    info = site / f"{name}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[karotte_gym.envs]\n{entry or name} = {value}\n")
    for folder, text in environments.items():
        (site / name / folder).mkdir(parents=True)
        (site / name / "__init__.py").write_text("")
        (site / name / folder / "__init__.py").write_text(text)


def test_an_installed_project_is_registered_without_importing_it(site: Path) -> None:
    bomb = f"open({str(site / 'imported')!r}, 'w')\n"
    install(site, "inst_a", "inst_a", first_task=bomb + GOOD.format(task_id="first-task"), second_task="x = (")
    (site / "inst_a" / "__init__.py").write_text(bomb)
    registration.register_installed()
    assert not (site / "imported").exists()
    assert "inst_a" not in sys.modules
    assert registered_tasks()["first-task"] == "inst_a.first_task"
    with gym.make("karotte/first-task") as env:
        assert env.unwrapped.task_class.id == "first-task"  # type: ignore[attr-defined]
    assert (site / "imported").exists()
    with pytest.raises(ConfigError, match=r"second_task/__init__\.py does not load: SyntaxError.*brought by inst_a"):
        gym.make("karotte/second-task")


def test_an_entry_point_may_name_one_environment(site: Path) -> None:
    (site / "inst_solo.py").write_text(GOOD.format(task_id="solo-a") + GOOD.format(task_id="solo-b").replace("Mine", "Other"))
    (site / "inst_alone.py").write_text(GOOD.format(task_id="alone"))
    install(site, "dist_b", "inst_solo:Other", "solo-b")
    install(site, "dist_c", "inst_alone", "alone")
    registration.register_installed()
    for task_id in ("solo-b", "alone"):
        with gym.make(f"karotte/{task_id}") as env:
            assert env.unwrapped.task_class.id == task_id  # type: ignore[attr-defined]
    assert "solo-a" not in registered_tasks()


def test_a_package_that_is_gone_is_named_when_its_task_is_made_and_hides_nothing(site: Path) -> None:
    install(site, "dist_gone", "no_such_package.envs", "gone-task")
    install(site, "inst_d", "inst_d", there_task=GOOD.format(task_id="there-task"))
    registration.register_installed()
    with pytest.raises(ConfigError, match=r"no task module no_such_package\.envs \(brought by dist_gone"):
        gym.make("karotte/gone-task")
    assert load_task("there-task").id == "there-task"


@pytest.mark.parametrize(
    "text", [b"[karotte_gym.envs]\n\xff\xfe = x\n", b"[karotte_gym.envs]\na = b c\n", b"[karotte_gym.envs]\n="]
)
def test_metadata_that_is_broken_is_a_sentence_and_the_import_goes_on(site: Path, text: bytes) -> None:
    install(site, "dist_broken", "x")
    (site / "dist_broken-1.0.dist-info" / "entry_points.txt").write_bytes(text)
    install(site, "inst_e", "inst_e", sound_task=GOOD.format(task_id="sound-task"))
    registration.register_installed()
    assert load_task("sound-task").id == "sound-task"
    assert len(registration.registration_problems()) == 1, registration.registration_problems()
    if text.isascii():  # else pydantic's own reading of it ends the import before ours begins
        environment = {**os.environ, "PYTHONPATH": str(site)}
        done = subprocess.run([sys.executable, "-c", "import karotte_gym"], env=environment, capture_output=True, text=True)
        assert (done.returncode, done.stderr) == (0, "")


def test_what_is_wrong_with_installed_projects_is_told_by_the_list_of_tasks(site: Path) -> None:
    install(site, "dist_f", "x y", "bad")
    install(site, "dist_g", "no_such_package", "gone-task")
    install(site, "inst_h", "inst_h", there_task=GOOD.format(task_id="there-task"), Bad_Name="")
    listed = subprocess.run(
        [sys.executable, "-m", "karotte_gym.cli.main", "tasks", "list"],
        env={**os.environ, "PYTHONPATH": str(site)},
        capture_output=True,
        text=True,
    )
    assert listed.returncode == 1
    assert "karotte/there-task" in listed.stdout
    assert "karotte/q3-revenue" in listed.stdout
    assert [line.split(":")[0] for line in listed.stderr.splitlines()] == ["karotte-gym"] * 3, listed.stderr
    assert all(word in listed.stderr for word in ("dist_f", "dist_g", "Bad_Name"))


def test_two_installed_projects_with_one_id_are_both_refused_by_name(site: Path) -> None:
    install(site, "inst_i", "inst_i", same_task=GOOD.format(task_id="same-task"))
    install(site, "inst_j", "inst_j", same_task=GOOD.format(task_id="same-task"), other_task=GOOD.format(task_id="other-task"))
    for _ in range(2):
        registration.register_installed()
        with pytest.raises(ConfigError, match=r"two installed projects bring the task 'same-task': inst_.*inst_.*uninstall"):
            gym.make("karotte/same-task")
        assert len(registration.registration_problems()) == 1
    assert load_task("other-task").id == "other-task"


def test_an_installed_project_does_not_displace_what_ships(site: Path) -> None:
    install(site, "inst_k", "inst_k", q3_revenue=GOOD.format(task_id="q3-revenue"))
    registration.register_installed()
    assert load_task("q3-revenue").__module__ == "karotte_gym.envs.q3_revenue"
    (problem,) = registration.registration_problems()
    assert problem.startswith("inst_k ")


def test_an_installed_project_may_be_registered_by_its_folder_too(site: Path) -> None:
    install(site, "inst_l", "inst_l", twice_task=GOOD.format(task_id="twice-task"))
    registration.register_installed()
    assert register_project(site / "inst_l") == ["karotte/twice-task"]
    assert registered_tasks()["twice-task"] == "inst_l.twice_task"


def test_a_spawned_worker_makes_an_installed_projects_environment(site: Path) -> None:
    install(site, "inst_m", "inst_m", spawned_task=GOOD.format(task_id="spawned-task"))
    (site / "spawned_main.py").write_text(SPAWN)
    done = subprocess.run(
        [sys.executable, str(site / "spawned_main.py")],
        env={**os.environ, "PYTHONPATH": str(site)},
        capture_output=True,
        text=True,
    )
    assert done.stdout.strip() == "spawned-task", done.stderr
