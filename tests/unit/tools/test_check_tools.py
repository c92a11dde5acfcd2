"""`check tools` names every mistake at once, and what an author should look at twice."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from karotte_gym import ConfigError, Task
from karotte_gym.env import KarotteEnv
from karotte_gym.registration import load_task
from karotte_gym.tools.check import check_tools

TASK = """
from karotte_gym import AlwaysPassJudge, Step, Task

class Own(Task):
    id = "own-tools"
    tools = {tools}
    steps = (Step("Do.", ("/workdir/x",), AlwaysPassJudge()),)

    def configure_tools(self):
        return {configuration}
"""
LOOK_UP = 'def look_up(word: str):\n    """Find."""\n    return WORD\n'
ENV_IMPORT = "from .. import WORD\n"


def folder(parent: Path, *, tools: str, configuration: str = "{}", **files: str) -> Path:
    place = parent / "own_tools"
    (place / "tools").mkdir(parents=True)
    (place / "__init__.py").write_text(
        "WORD = 'from the environment'\n" + TASK.format(tools=tools, configuration=configuration)
    )
    for name, source in files.items():
        (place / "tools" / f"{name}.py").write_text(source)
    return place


def load(place: Path) -> type[Task]:
    return load_task(str(place))


def test_a_tool_imports_from_its_environment_and_has_nothing_to_find(tmp_path: Path) -> None:
    described = LOOK_UP.replace('"""Find."""', '"""Find.\n\n    Args:\n        word: It.\n    """')
    task = load(folder(tmp_path, tools="('look_up', 'bash')", look_up=ENV_IMPORT + described))
    assert check_tools(task) == []
    assert KarotteEnv(f"{tmp_path}/own_tools").tool_names == ("look_up", "bash", "submit")


def test_every_mistake_is_found_at_once(tmp_path: Path) -> None:
    task = load(
        folder(
            tmp_path,
            tools="('first', 'second')",
            first="def first(x):\n    pass\n",
            second='\ndef second():\n    """Do."""\n    yield\n',
            spare='def spare():\n    """Do."""\n',
            _helper="1 / 0\n",
        )
    )
    found = check_tools(task)
    assert [finding.level for finding in found] == ["error", "error", "warning"]
    for finding, words in zip(found, ["first.py:1", "second.py:2", "'spare'"], strict=True):
        assert words in f"{finding.place} {finding.sentence}"
    with pytest.raises(ConfigError, match=r"first\.py:1"):
        KarotteEnv(f"{tmp_path}/own_tools")


def test_what_deserves_a_second_look_is_named_with_its_line(tmp_path: Path) -> None:
    rooted = (
        'from karotte_gym import StudentSandbox\ndef rooted(path: str, s: StudentSandbox):\n    """Do."""\n'
        "    return s.as_root.get_file(path, max_bytes=9)\n"
    )
    inside = 'import numpy\nfrom karotte_gym import tool\n@tool(run_in="machine")\ndef inside():\n    """Do."""\n'
    found = check_tools(load(folder(tmp_path, tools="('rooted', 'inside')", rooted=rooted, inside=inside)))
    told = [f"{Path(finding.place).name}: {finding.sentence}" for finding in found]
    assert [finding.level for finding in found] == ["warning"] * 3
    assert told[0].startswith("inside.py:1: imports numpy")
    assert told[1].startswith("rooted.py:1: the parameter path has no description")
    assert told[2].startswith("rooted.py:4: acts as root")


def test_what_the_machine_has_not_of_this_package_is_named(tmp_path: Path) -> None:
    """Such a tool loads here, where the package is, and fails there in each call."""
    inside = (
        "import karotte_gym.errors\nfrom karotte_gym import ToolResult, tool\nfrom karotte_gym.tools import clean\n"
        "import karotte_gym\nimport karotte_gym as own\n"
        '@karotte_gym.tool(run_in="machine")\ndef inside():\n    """Do."""\n    return karotte_gym.Scoring(1)\n'
    )
    found = check_tools(load(folder(tmp_path, tools="('inside',)", inside=inside)))
    told = {(int(finding.place.rpartition(":")[2]), finding.sentence.split()[1]) for finding in found}
    assert told == {(1, "karotte_gym.errors"), (2, "ToolResult"), (3, "clean"), (9, "Scoring")}
    assert {finding.level for finding in found} == {"warning"}


IN_MACHINE = 'from karotte_gym import tool\n@tool(run_in="machine")\ndef look_up():\n    """Do."""\n    return "é"\n'


@pytest.mark.parametrize("source", [IN_MACHINE, 'def look_up():\n    """Do."""\n    return "é"\n'])
@pytest.mark.parametrize(
    ("encoding", "first"), [("utf-8-sig", ""), ("latin-1", "# coding: latin-1\n"), ("cp1252", "# -*- coding: cp1252 -*-\n")]
)
def test_a_file_is_read_in_its_own_encoding(tmp_path: Path, source: str, encoding: str, first: str) -> None:
    place = folder(tmp_path, tools="('look_up',)", look_up="")
    (place / "tools" / "look_up.py").write_bytes((first + source).encode(encoding))
    assert check_tools(load(place)) == []
    (tool, _) = KarotteEnv(str(place)).toolset._definitions.values()
    assert getattr(tool, "_source", "é").count("é") == 1


@pytest.mark.parametrize("source", [IN_MACHINE, 'def look_up():\n    """Do."""\n'])
@pytest.mark.parametrize("end", [b"# \xff\n", b"x = '\xff'\n", b"\0", b"# coding: nosuch\n"])
def test_a_file_that_is_no_text_is_a_finding_and_no_crash(tmp_path: Path, source: str, end: bytes) -> None:
    place = folder(tmp_path, tools="('look_up',)", look_up="")
    (place / "tools" / "look_up.py").write_bytes(source.encode() + end)
    assert all("look_up.py:" in f"{finding.place}{finding.sentence}" for finding in check_tools(load(place)))


@pytest.mark.parametrize(
    ("tools", "named"),
    [
        ("('bash', 'look_up', 'nosuch')", "tools/nosuch.py"),
        ("'bash'", "tuple of names"),
        ("('bash', 'bash')", "more than once"),
        ("(5,)", "tuple of names"),
    ],
)
def test_the_names_of_the_tools_are_checked_when_the_task_is_defined(tmp_path: Path, tools: str, named: str) -> None:
    with pytest.raises(ConfigError, match=named):
        load(folder(tmp_path, tools=tools, look_up=ENV_IMPORT + LOOK_UP))


@pytest.mark.parametrize(
    ("configuration", "named"),
    [("{'bash': {}}", "no configuration"), ("{'look_up': {}}", "class Config"), ("{'other': {}}", "other"), ("5", "mapping")],
)
def test_a_configuration_that_fits_no_tool_is_found_before_any_episode(tmp_path: Path, configuration: str, named: str) -> None:
    place = folder(tmp_path, tools="('bash', 'look_up')", configuration=configuration, look_up=ENV_IMPORT + LOOK_UP)
    (finding, error) = check_tools(load(place))
    assert finding.level == "warning"
    assert (error.level, named in error.sentence) == ("error", True)
    with pytest.raises(ConfigError, match=named):
        KarotteEnv(str(place))


def test_a_tool_of_a_built_in_ones_name_replaces_it(tmp_path: Path) -> None:
    bash = 'def bash(word: str):\n    """Mine."""\n'
    env = KarotteEnv(str(folder(tmp_path, tools="('bash', 'write_file')", bash=bash)))
    described = {tool["function"]["name"]: tool["function"]["description"] for tool in env.toolset.openai_schemas()}
    assert list(described) == ["bash", "write_file", "submit"]
    assert described["bash"] == "Mine."
    assert isinstance(env.toolset.parse({"name": "bash", "arguments": {"command": "id"}}), str)


def run_check(place: Path, *arguments: str) -> tuple[int, str, str]:
    command = [sys.executable, "-m", "karotte_gym.cli.main", "check", "tools", str(place), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout, done.stderr


def test_the_command_line_says_it_and_exits_1(tmp_path: Path) -> None:
    place = folder(tmp_path, tools="('first',)", first="def first(x: int):\n    pass\n")
    code, out, err = run_check(place)
    assert (code, err) == (1, "")
    assert "first.py:1" in out.replace("\n", "") and "docstring" in out
    found: dict[str, Any] = json.loads(run_check(place, "--json")[1])
    assert (found["ok"], found["findings"][0]["level"]) == (False, "error")
    (place / "tools" / "first.py").write_text('def first(x: int):\n    """Do.\n\n    Args:\n        x: It.\n    """\n')
    code, out, err = run_check(place)
    assert (code, err) == (0, ""), out
    assert "own-tools: 2 tools, nothing found" in out
