"""Projects are made from templates that ship, refuse bad names in one sentence, and merge with newer templates."""

from __future__ import annotations

import ast
import json
import shutil
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Callable
from pathlib import Path

import gymnasium as gym
import pytest
import yaml
from scoring_script import run_script

from karotte_gym import register_project
from karotte_gym.cli.main import main
from karotte_gym.errors import ConfigError
from karotte_gym.projects import Updated, create_project, create_task, update_project
from karotte_gym.projects.history import PROJECT_HISTORY, SOURCE, TASK_HISTORY, versions, write_repository
from karotte_gym.redteam import own_attacks, solution_of
from karotte_gym.registration import load_task

GIT = ["git", "-c", "user.name=an author", "-c", "user.email=author@localhost", "-c", "commit.gpgsign=false"]


@pytest.fixture(autouse=True)
def _registry():  # type: ignore[no-untyped-def]
    before = dict(gym.registry)
    yield
    gym.registry.clear()
    gym.registry.update(before)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    create_project(tmp_path / "my-tasks")
    return tmp_path / "my-tasks"


def commit(project: Path) -> None:
    if not (project / ".git").exists() and not (project.parent / ".git").exists():
        subprocess.run([*GIT, "init", "--quiet", str(project)], check=True)
    subprocess.run([*GIT, "add", "--all"], cwd=project, check=True)
    subprocess.run([*GIT, "commit", "--quiet", "--allow-empty", "--message", "x"], cwd=project, check=True)


def edit(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


def files_of(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture
def history(tmp_path: Path) -> Path:
    """The first version that ships, and one after it that changes a line, adds a file and drops another."""
    history = tmp_path / "history"
    for version in ("v1", "v2"):
        shutil.copytree(PROJECT_HISTORY / "v1", history / version)
    newer = history / "v2" / "template"
    edit(newer / ".copier-answers.yml.jinja", "_commit: v1", "_commit: v2")
    edit(newer / "pyproject.toml.jinja", "timeout = 600", "timeout = 900")
    (newer / "CHANGES.md.jinja").write_text("{{ project_name }}\n")
    (newer / ".github" / "workflows" / "tests.yml.jinja").unlink()
    return history


# What is made


def test_a_project_is_whole_and_registers_its_example(project: Path) -> None:
    assert {path.name for path in project.iterdir()} == {
        ".copier-answers.yml",
        ".github",
        ".gitignore",
        "README.md",
        "envs",
        "pyproject.toml",
        "tests",
    }
    assert register_project(project) == ["karotte/my-tasks-example"]
    task = load_task("my-tasks-example")
    assert len(own_attacks(task)) >= 5
    assert solution_of(task)[-1]["name"] == "submit"
    assert all(path in task.steps[0].instructions for path in task.steps[0].submission_paths)
    metadata = tomllib.loads((project / "pyproject.toml").read_text())
    assert metadata["project"]["entry-points"]["karotte_gym.envs"] == {"my-tasks": "my_tasks"}
    workflow = yaml.safe_load((project / ".github" / "workflows" / "tests.yml").read_text())
    assert [step.get("run") for step in workflow["jobs"]["tests"]["steps"]][-1] == "python -m pytest"


def test_a_task_that_does_not_load_stops_only_its_own_tests(project: Path) -> None:
    for folder in ("broken", "Bad_Name"):
        (project / "envs" / folder).mkdir()
        (project / "envs" / folder / "__init__.py").write_text("x = (")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    listed = subprocess.run([*command, "--collect-only"], cwd=project, capture_output=True, text=True, check=False)
    assert listed.returncode == 0, listed.stdout
    attack = "test_an_attack_earns_nothing[karotte/my-tasks-example-link_to_the_key]"
    assert attack in listed.stdout and "test_the_solution_earns_the_full_score[karotte/broken]" in listed.stdout
    told = subprocess.run([*command, "-k", "broken or named"], cwd=project, capture_output=True, text=True, check=False)
    assert told.returncode == 1
    assert "Bad_Name" in told.stdout and "must be named like" in told.stdout
    assert "envs/broken/__init__.py does not load: SyntaxError" in told.stdout


def test_what_is_made_is_free_of_marks_and_lint(project: Path) -> None:
    create_task("another-one", project)
    for name, data in files_of(project).items():
        assert b"{{" not in data, name
        assert b"{%" not in data, name
        assert data.endswith(b"\n"), name
    ruff = [sys.executable, "-m", "ruff"]
    for arguments in (["check", "--isolated", "--select=E,F,I,B,UP"], ["format", "--isolated", "--check"]):
        done = subprocess.run([*ruff, *arguments, "--line-length=128", str(project)], capture_output=True, text=True)
        assert done.returncode == 0, done.stdout


@pytest.mark.parametrize(
    ("task_id", "class_name"),
    [
        ("my-task", "MyTask"),
        ("a1-2b", "A12b"),
        ("none", "NoneTask"),
        ("step", "StepTask"),
        ("executable-judge", "ExecutableJudgeTask"),
    ],
)
def test_a_task_is_made_with_a_class_of_its_own_name(project: Path, task_id: str, class_name: str) -> None:
    folder = create_task(task_id, project / "tests")
    register_project(project)
    assert load_task(task_id).__name__ == class_name
    assert load_task(task_id).folder() == folder
    names = {node.id for node in ast.walk(ast.parse((folder / "grade.py").read_text())) if isinstance(node, ast.Name)}
    assert not names & {"eval", "exec"}


def test_the_solution_of_a_made_task_is_what_its_grader_wants(project: Path) -> None:
    folder = project / "envs" / "my_tasks_example"
    numbers = [int(line) for line in (folder / "student_data" / "numbers.txt").read_text().split()]
    assert int((folder / "root_data" / "expected.txt").read_text()) == sum(numbers)
    assert str(sum(numbers)) not in (folder / "student_data" / "numbers.txt").read_text()


@pytest.mark.parametrize(
    ("answer", "score"),
    [
        (b"178187", 1.0),
        (b"178187\n", 1.0),
        (b"178188\n", 0.0),
        (b"", 0.0),
        (b"178187\n\n", 0.0),
        (b" 178187", 0.0),
        (b"+178187", 0.0),
        (b'"178187"', 0.0),
        (b"\xef\xbb\xbf178187", 0.0),
        ("178187".encode("utf-16"), 0.0),
        (b"178187\n178187\n", 0.0),
        (b"178187" + b" " * 100, 0.0),
        (b"178186+1", 0.0),
        (b"\0" * 10, 0.0),
        (None, 0.0),
    ],
)
def test_the_grader_of_a_made_task_takes_one_form_of_the_answer(
    project: Path, tmp_path: Path, answer: bytes | None, score: float
) -> None:
    folder, submission = project / "envs" / "my_tasks_example", tmp_path / "submission"
    (submission / "workdir").mkdir(parents=True)
    if answer is not None:
        (submission / "workdir" / "answer.txt").write_bytes(answer)
    run_script(folder / "grade.py", submission, folder / "root_data", tmp_path / "result.json")
    assert json.loads((tmp_path / "result.json").read_text())["score"] == score


def test_the_wheel_of_a_project_carries_all_of_its_environments(project: Path, tmp_path: Path) -> None:
    data = project / "envs" / "my_tasks_example" / "student_data"
    for name in (".hidden", ".config/settings", "deep/er/file", "deep/.hidden/file"):
        (data / name).parent.mkdir(parents=True, exist_ok=True)
        (data / name).write_text("data")
    expected = {f"my_tasks/{name}" for name in files_of(project / "envs")}
    pip = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "-w", str(tmp_path)]
    for folder in (project / "envs", project / "envs" / "my_tasks_example"):
        (folder / "__pycache__").mkdir()
        (folder / "__pycache__" / "x.pyc").write_bytes(b"")
    subprocess.run([*pip, str(project)], check=True, capture_output=True, timeout=240)
    (wheel,) = tmp_path.glob("*.whl")
    names = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    assert names == expected


# What is refused


@pytest.mark.parametrize(
    "name",
    [
        *("Bad", "a--b", "", "x-v1", "../up", "json", "class", "karotte-gym", "numpy", "a_b", "1st", "a" * 57, "a" * 300),
        *("tests", "envs", "docs", "build", "wrappers", "karotte", "karotte-grading"),
    ],
)
def test_a_project_name_that_would_break_something_is_refused_before_anything_is_written(tmp_path: Path, name: str) -> None:
    with pytest.raises(ConfigError, match=r"can't be named .*--name"):
        create_project(tmp_path / "project", name)
    assert not (tmp_path / "project").exists()


def test_a_folders_name_becomes_the_projects(tmp_path: Path) -> None:
    assert create_project(tmp_path / "My Good_Tasks!") == "my-good-tasks"


def test_a_folder_that_holds_something_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(ConfigError, match=r"is not empty \(it holds notes.txt\)"):
        create_project(tmp_path, "my-tasks")
    with pytest.raises(ConfigError, match="is no folder"):
        create_project(tmp_path / "notes.txt", "my-tasks")
    assert files_of(tmp_path) == {"notes.txt": b"mine"}


def test_the_longest_name_of_a_project_makes_a_task_that_loads(tmp_path: Path) -> None:
    create_project(tmp_path / "long", "a" * 56)
    (env_id,) = register_project(tmp_path / "long")
    assert load_task(env_id).id == "a" * 56 + "-example"


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["create-env", "notes.txt/sub"], "notes.txt is no folder; give the name of a new one"),
        (["create-env", "notes.txt/sub/sub", "--name", "my-tasks"], "notes.txt is no folder"),
        (["create-env", "a" * 300], "File name too long; give the name of a new folder"),
        (["create-env", "a" * 300, "--name", "my-tasks"], "File name too long; give the name of a new folder"),
        (["create-env", "x", "--name", "a" * 300], "give --name like"),
        (["create-env", "tests"], "a project's tests are in a folder of that name; give another --name"),
        (["create-task", "a" * 300, "--project", "project"], "64 letters at most"),
        (["create-task", "envs", "--project", "project"], "environments are in a folder of that name; choose another"),
        (["create-env", "/proc/nowhere/x"], "can't be written"),
    ],
)
def test_what_can_not_be_made_is_refused_in_one_line(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    recwarn: pytest.WarningsRecorder,
    arguments: list[str],
    sentence: str,
) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    create_project(tmp_path / "project", "my-project")
    before = files_of(tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["karotte-gym", *arguments])
    with pytest.raises(SystemExit) as ended:
        main()
    said = capsys.readouterr().err
    assert (ended.value.code, len(said.splitlines()), sentence in said) == (2, 1, True), said
    assert [str(warning.message) for warning in recwarn if issubclass(warning.category, UserWarning)] == []
    assert files_of(tmp_path) == before


def test_the_line_to_go_there_can_be_pasted_into_a_shell(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["karotte-gym", "create-env", "My $(id) Tasks!"])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 0
    (line,) = [line for line in capsys.readouterr().out.splitlines() if line.startswith("  cd ")]
    done = subprocess.run(["/bin/sh", "-c", f"{line} && pwd"], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == str(tmp_path / "My $(id) Tasks!")


def test_a_folder_with_a_fresh_repository_is_empty_enough(tmp_path: Path) -> None:
    subprocess.run([*GIT, "init", "--quiet", str(tmp_path / "my-tasks")], check=True)
    assert create_project(tmp_path / "my-tasks") == "my-tasks"


@pytest.mark.parametrize(
    "task_id",
    [
        "Bad",
        "a_b",
        "a--b",
        "",
        "x-v2",
        "../../up",
        "/tmp/x",
        "1st",
        "tools",
        "root-data",
        "q3-revenue",
        "envs",
        "tests",
        "build",
        "a" * 300,
    ],
)
def test_a_task_id_that_is_bad_or_taken_is_refused_and_nothing_is_written(project: Path, task_id: str) -> None:
    before = files_of(project.parent)
    with pytest.raises(ConfigError):
        create_task(task_id, project)
    assert files_of(project.parent) == before


def test_a_task_that_is_there_is_not_overwritten(project: Path) -> None:
    (create_task("mine", project) / "grade.py").write_text("edited")
    with pytest.raises(ConfigError, match="there is a task 'mine' already"):
        create_task("mine", project)
    assert (project / "envs" / "mine" / "grade.py").read_text() == "edited"


def test_outside_a_project_the_commands_say_where_to_go(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for arguments in (["create-task", "x"], ["update"]):
        monkeypatch.setattr(sys, "argv", ["karotte-gym", *arguments, "--project", str(tmp_path)])
        with pytest.raises(SystemExit) as ended:
            main()
        assert ended.value.code == 2
        assert "is in no project: go into one" in capsys.readouterr().err


# Updates


@pytest.mark.parametrize("version", versions(PROJECT_HISTORY))
def test_every_version_that_ships_names_itself_and_the_source(version: str) -> None:
    answers = (PROJECT_HISTORY / version / "template" / ".copier-answers.yml.jinja").read_text().splitlines()
    assert f"_commit: {version}" in answers
    assert f"_src_path: {SOURCE}" in answers


def test_templates_use_nothing_of_copiers_that_runs_code() -> None:
    configs = [*PROJECT_HISTORY.glob("*/copier.yml"), *TASK_HISTORY.glob("*/copier.yml")]
    assert len(configs) >= 2
    for config in configs:
        assert not {"_tasks", "_migrations", "_jinja_extensions"} & yaml.safe_load(config.read_text()).keys()


def test_the_repository_of_templates_is_the_same_wherever_it_is_made(
    tmp_path: Path, history: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_repository(history, tmp_path / "one")
    (tmp_path / "gitconfig").write_text("[core]\n autocrlf = true\n[user]\n name = Somebody\n[commit]\n gpgsign = true\n")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(tmp_path / "gitconfig"))
    write_repository(history, tmp_path / "other")
    tips = [subprocess.check_output([*GIT, "rev-parse", "v1", "v2"], cwd=tmp_path / name) for name in ("one", "other")]
    assert tips[0] == tips[1]


def test_versions_are_in_the_order_of_their_numbers(tmp_path: Path) -> None:
    for name in ("v10", "v2", "v1", "notes"):
        (tmp_path / name).mkdir()
    assert versions(tmp_path) == ["v1", "v2", "v10"]


def test_an_update_keeps_the_edits_and_brings_the_templates_changes(project: Path, history: Path) -> None:
    edit(project / "pyproject.toml", 'description = "Environments for karotte-gym"', 'description = "Mine"')
    edit(project / "envs" / "my_tasks_example" / "grade.py", "MAX_BYTES = 32", "MAX_BYTES = 16")
    (project / "README.md").unlink()
    commit(project)
    before = files_of(project / "envs")
    done = update_project(project / "envs", history)
    changed = (".copier-answers.yml", ".github/workflows/tests.yml", "CHANGES.md", "pyproject.toml")
    assert done == Updated("v1", "v2", changed)
    metadata = tomllib.loads((project / "pyproject.toml").read_text())
    assert metadata["project"]["description"] == "Mine"
    assert metadata["tool"]["pytest"]["ini_options"]["timeout"] == 900
    assert (project / "CHANGES.md").read_text() == "my-tasks\n"
    assert not (project / "README.md").exists(), "what the author has thrown away stays away"
    assert files_of(project / "envs") == before
    commit(project)
    assert update_project(project, history) == Updated("v2", "v2")


def test_an_update_works_from_any_place_and_for_a_project_inside_a_larger_repository(
    project: Path, history: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere = tmp_path / "another machine" / "tree" / "project"
    shutil.copytree(project, elsewhere)
    (elsewhere.parent / "neighbour.txt").write_text("not mine")
    subprocess.run([*GIT, "init", "--quiet", str(elsewhere.parent)], check=True)
    commit(elsewhere)
    (elsewhere.parent / "neighbour.txt").write_text("still being edited")
    monkeypatch.chdir("/")
    done = update_project(elsewhere, history)
    assert "CHANGES.md" in done.changed
    assert (elsewhere.parent / "neighbour.txt").read_text() == "still being edited"


def test_edits_that_contradict_the_template_are_marked_and_named(
    project: Path, history: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    edit(project / "pyproject.toml", "timeout = 600", "timeout = 60")
    commit(project)
    _update_by_command(project, history, monkeypatch)
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 1
    assert "contradict each other in pyproject.toml: choose between the marked lines" in capsys.readouterr().err
    marked = (project / "pyproject.toml").read_text()
    assert all(line in marked for line in ("<<<<<<<", "timeout = 60\n", "=======", "timeout = 900\n", ">>>>>>>"))


def test_the_command_says_what_changed(
    project: Path, history: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    commit(project)
    _update_by_command(project, history, monkeypatch)
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 0
    out = capsys.readouterr().out
    assert "from v1 to v2" in out
    assert "  CHANGES.md" in out


def _update_by_command(project: Path, history: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from karotte_gym.cli import update as command

    monkeypatch.setattr(command, "update_project", lambda folder: update_project(folder, history))
    monkeypatch.setattr(sys, "argv", ["karotte-gym", "update", "--project", str(project)])


def _no_repository(project: Path) -> None:
    shutil.rmtree(project / ".git")


def _change(project: Path) -> None:
    edit(project / "pyproject.toml", "timeout = 600", "timeout = 60")


def _new_file(project: Path) -> None:
    (project / "envs" / "notes.txt").write_text("mine")


def _foreign_template(project: Path) -> None:
    edit(project / ".copier-answers.yml", f"_src_path: {SOURCE}", "_src_path: /home/me/template")


def _later_version(project: Path) -> None:
    edit(project / ".copier-answers.yml", "_commit: v1", "_commit: v7")


def _an_option_for_git(project: Path) -> None:
    edit(project / ".copier-answers.yml", "_commit: v1", "_commit: --upload-pack=touch")


def _no_yaml(project: Path) -> None:
    (project / ".copier-answers.yml").write_text("{")


def _code_in_yaml(project: Path) -> None:
    (project / ".copier-answers.yml").write_text("!!python/object/apply:os.system ['exit 1']\n")


def _no_answers(project: Path) -> None:
    (project / ".copier-answers.yml").write_text("")


@pytest.mark.parametrize(
    ("spoil", "sentence"),
    [
        (_no_repository, "has no commit to merge with: git init"),
        (_change, r"not committed \(pyproject.toml\): commit or stash"),
        (_new_file, r"not committed \(envs/notes.txt\)"),
        (_foreign_template, "names another template"),
        (_later_version, "has template v7, this karotte-gym knows v1, v2: install a newer"),
        (_an_option_for_git, "install a newer"),
        (_no_yaml, "can't be read"),
        (_code_in_yaml, "can't be read"),
        (_no_answers, "holds no answers"),
    ],
)
def test_an_update_that_can_not_be_merged_is_refused_in_one_line_and_touches_nothing(
    project: Path, history: Path, spoil: Callable[[Path], None], sentence: str
) -> None:
    commit(project)
    spoil(project)
    before = files_of(project)
    with pytest.raises(ConfigError, match=sentence) as caught:
        update_project(project, history)
    assert len(str(caught.value).splitlines()) == 1
    assert {name: data for name, data in files_of(project).items() if ".git/" not in name} == {
        name: data for name, data in before.items() if ".git/" not in name
    }


def test_without_git_a_project_is_made_but_not_updated(
    project: Path, history: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit(project)
    monkeypatch.setenv("PATH", str(tmp_path / "nothing"))
    assert create_project(tmp_path / "other-tasks") == "other-tasks"
    assert files_of(tmp_path / "other-tasks").keys() >= {"pyproject.toml", "tests/test_tasks.py"}
    with pytest.raises(ConfigError, match="git is not installed"):
        update_project(project, history)
