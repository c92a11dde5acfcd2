"""A tool that runs inside: what may be handed to it, and whatever comes out of it."""

# ruff: noqa: E501 - sources of tools, one a line
from __future__ import annotations

import json
import subprocess
import sys
import warnings
from typing import Any

import pytest
from memory_sandbox import MemorySandbox, World
from own_tools import Load, run

from karotte_gym import ConfigError
from karotte_gym.sandbox.contract import CommandResult, MachineSpec
from karotte_gym.tools.definition import CallSite

MACHINE = 'from karotte_gym import tool\n@tool(run_in="machine")\ndef look_up(word: str):\n    """Do."""\n    return word\n'


@pytest.mark.parametrize(
    ("types", "hint"),
    [
        ("", "datetime.date"),
        ("", "set[int]"),
        ("", "tuple[int, str]"),
        ("", "bytes"),
        ("", "pathlib.Path"),
        ("", "decimal.Decimal"),
        ("", "dict[int, str]"),
        ("", "list[datetime.date] | None"),
        ("", "dict[str, list[set[int]]]"),
        ("", "Annotated[datetime.date, 'when']"),
        ("class Colour(enum.Enum):\n    RED = 'red'\n", "Colour"),
        ("class Colour(enum.StrEnum):\n    RED = 'red'\n", "Literal[Colour.RED]"),
        ("@dataclasses.dataclass\nclass Point:\n    x: int\n", "Point"),
    ],
)
def test_what_would_not_reach_the_machine_as_its_type_is_refused(load: Load, types: str, hint: str) -> None:
    """There is no pydantic there to make a date of a text: each call would fail, or do something else."""
    header = "import dataclasses, datetime, decimal, enum, pathlib\nfrom typing import *\nfrom karotte_gym import tool\n"
    source = f'{header}{types}{{}}\ndef look_up(word: {hint}):\n    """Do."""\n'
    load(source.format("@tool"))
    with pytest.raises(ConfigError, match=r"look_up.py:\d+: parameter word: .* as JSON has them"):
        load(source.format('@tool(run_in="machine")'))


@pytest.mark.parametrize(
    "hint",
    ["str", "int | None", "float", "bool", "list[list[int]]", "list", "dict", "dict[str, Any]", "Literal['a', 1, None]", "Optional[str]",
     "Annotated[int, 'most']", "NewType('Word', str)"],
)  # fmt: skip
def test_what_is_plain_reaches_the_machine(load: Load, hint: str) -> None:
    header = "from typing import *\nfrom karotte_gym import tool\n"
    load(f'{header}Word = {hint}\n@tool(run_in="machine")\ndef look_up(word: Word):\n    """Do."""\n')


@pytest.mark.parametrize("name", ["statistics", "random", "json", "calendar", "os", "types", "look_up"])
def test_a_tool_in_the_machine_may_have_the_name_of_a_module(load: Load, name: str) -> None:
    """Run as the machine runs it, by a Python of this host."""
    source = (
        "from __future__ import annotations\nimport dataclasses\nfrom statistics import mean\nfrom random import Random\n"
        "from json import dumps\nfrom calendar import month_name\nfrom karotte_gym import tool\n"
        "@dataclasses.dataclass\nclass Point:\n    x: int\n"
        f'@tool(run_in="machine")\ndef {name}(numbers: list[int]) -> str:\n    """Do."""\n'
        "    return dumps([mean(numbers), month_name[1], Point(1).x, Random(1).random() < 1])\n"
    )
    tool = load(source, name)
    facts = {"name": name, "file": f"{name}.py", "source": source, "arguments": {"numbers": [1, 3]}}
    argv = [sys.executable, *tool._argv[1:]]  # type: ignore[attr-defined]
    done = subprocess.run(argv, input=json.dumps(facts).encode(), capture_output=True, check=False, timeout=60)
    assert json.loads(done.stdout) == {"result": '[2, "January", 1, true]'}, done.stderr


class Answering(MemorySandbox):
    """A machine whose every program prints what the test says."""

    stdout = b""
    timed_out = False

    def run(self, argv: Any, **facts: Any) -> CommandResult:  # type: ignore[override]
        self.asked = (argv, facts)
        return CommandResult(self.stdout, None if self.timed_out else 0, self.timed_out, 0, 0.5, stdout=self.stdout)


@pytest.mark.parametrize(
    ("stdout", "text", "failed"),
    [
        (b'{"result": "a\\u001b[31mb"}', "ab", False),
        (b'{"result": {"a": 1}}', '{"a": 1}', False),
        (b'{"result": null}', "", False),
        (b'{"error": "ValueError: x\\ny"}', "error: look_up failed: ValueError: x y", True),
        (b"", "gave no result", True),
        (b"[" * 200_000, "gave no result", True),
        (b"9" * 100_000, "gave no result", True),
        (b'{"result": ' + b"9" * 5000 + b"}", "gave no result", True),
        (b'{"error": 5}', "gave no result", True),
        (b"\xff\xfe", "gave no result", True),
    ],
)
def test_whatever_comes_out_of_the_machine_is_an_answer(
    load: Load, site: CallSite, stdout: bytes, text: str, failed: bool
) -> None:
    machine = Answering(MachineSpec(role="student"), World())
    machine.stdout = stdout
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        result = run(load(MACHINE), CallSite(machine, site.limits, site.context), word="w")
    assert (text in result.text, result.failed, bool(told)) == (True, failed, failed)
    assert "user" not in machine.asked[1]  # the default is the student
    sent = json.loads(machine.asked[1]["stdin"])
    assert (sent["name"], sent["arguments"]) == ("look_up", {"word": "w"})
    assert str(load) not in sent["file"] and sent["file"] == "look_up.py"


def test_a_tool_that_is_too_slow_in_the_machine_says_so(load: Load, site: CallSite) -> None:
    machine = Answering(MachineSpec(role="student"), World())
    machine.timed_out = True
    result = run(load(MACHINE), CallSite(machine, site.limits, site.context), word="w")
    assert result.timed_out and result.failed and result.exit_code is None
