"""A file in ``tools/`` becomes a tool, or a sentence with its line; what it does wrong is an answer, never the end."""

# ruff: noqa: E501 - sources of tools, one a line
from __future__ import annotations

import itertools
import json
import signal
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from memory_sandbox import MemorySandbox, World

from karotte_gym import ConfigError, Limits, MachineDied, StudentMisbehavior, TaskConfig, ToolContext, ToolResult
from karotte_gym.sandbox.contract import CommandResult, MachineSpec
from karotte_gym.store import ProtectedStore
from karotte_gym.tools.call import ToolCall
from karotte_gym.tools.definition import CallSite, Definition
from karotte_gym.tools.own import load_tool
from karotte_gym.tools.own_files import package_of, tool_files
from karotte_gym.tools.own_result import MAX_WARNINGS
from karotte_gym.tools.toolset import Toolset

HEADER = "from __future__ import annotations\n"
Load = Callable[..., Definition]
_NUMBERS = itertools.count()


@pytest.fixture
def load(tmp_path: Path) -> Load:
    """Write a file as ``tools/NAME.py`` of a folder of its own, and make a tool of it."""

    def load(source: str, name: str = "look_up") -> Definition:
        folder = tmp_path / str(next(_NUMBERS))
        (folder / "tools").mkdir(parents=True)
        (folder / "tools" / f"{name}.py").write_text(source)
        return load_tool(tool_files(folder)[name], package_of("no.such", folder))

    return load


@pytest.fixture
def site() -> CallSite:
    context = ToolContext(TaskConfig(), ProtectedStore(), np.random.default_rng(1), 1, 7)
    return CallSite(MemorySandbox(MachineSpec(role="student"), World()), Limits(command_timeout_s=5.0), context)


def run(tool: Definition, site: CallSite, **arguments: Any) -> ToolResult:
    """Through a toolset, as an environment does it."""
    toolset = Toolset([tool])
    toolset.begin_episode({})
    call = toolset.parse({"name": tool.name, "arguments": arguments})
    assert isinstance(call, ToolCall), call
    return toolset.run(call, site)


def refusal(tool: Definition, arguments: object) -> str:
    answer = Toolset([tool]).parse({"name": tool.name, "arguments": arguments})
    assert isinstance(answer, str), answer
    return answer


DESCRIBED = '''
from typing import Annotated, Literal
from pydantic import Field
from karotte_gym import Sandbox, StudentSandbox, ToolContext

def look_up(sandbox: StudentSandbox, word: str, context: ToolContext, limit: Annotated[int, Field(ge=1)] = 5,
            order: Literal["up", "down"] = "up", tags: list[str] | None = None) -> str:
    """Find a word
    in the notes.

    Not for the model: the notes hold the answer.

    Args:
        word: What to look for,
            a whole word.
        limit (int): How many at most.

    Returns:
        tags: nothing of this is a parameter.
    """
    return f"{word} {limit} {order} {tags} {context.step} {context.seed}"
'''


def test_types_and_docstring_become_the_schema(load: Load, site: CallSite) -> None:
    tool = load(DESCRIBED)
    (schema, submit) = Toolset([tool]).openai_schemas()
    assert submit["function"]["name"] == "submit"
    assert schema["function"]["name"] == "look_up"
    assert schema["function"]["description"] == "Find a word\nin the notes."
    parameters = schema["function"]["parameters"]
    assert parameters["properties"] == {
        "word": {"description": "What to look for, a whole word.", "type": "string"},
        "limit": {"default": 5, "description": "How many at most.", "minimum": 1, "type": "integer"},
        "order": {"default": "up", "enum": ["up", "down"], "type": "string"},
        "tags": {"items": {"type": "string"}, "type": "array"},
    }
    assert (parameters["required"], parameters["additionalProperties"]) == (["word"], False)
    assert Toolset([tool]).mcp_schemas()[0]["inputSchema"] == parameters
    assert run(tool, site, word="a").text == "a 5 up None 1 7"
    assert run(tool, site, word="a", limit=2, order="down", tags=["x"]).text == "a 2 down ['x'] 1 7"


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({}, "word: Field required"),
        ({"word": 5}, "word"),
        ({"word": "a", "limit": "5"}, "limit"),
        ({"word": "a", "limit": 0}, "limit"),
        ({"word": "a", "order": "sideways"}, "order"),
        ({"word": "a", "sandbox": "root"}, "sandbox"),
        ({"word": "a", "context": {}}, "context"),
        ({"word": "a\ud800"}, "word"),
        ({"word": "a", "tags": ["x\ud800"]}, "look_up"),
        ({"word": float("nan")}, "JSON"),
        ('{"word": "a", "limit": 1e999}', "JSON"),
        ({"word": b"a"}, "JSON"),
        ({"word": {1}}, "JSON"),
        ({"word": "a", "argument_1": 7}, "argument_1"),
        ({"word": "x" * 300_000}, "too long"),
    ],
)
def test_wrong_arguments_are_answered_with_what_is_wrong_and_the_schema(load: Load, arguments: object, named: str) -> None:
    answer = refusal(load(DESCRIBED), arguments)
    assert named in answer and len(answer) < 600 and "\n" not in answer and answer.encode()
    assert answer.endswith("look_up(word: string, limit?: integer, order?: 'up' | 'down', tags?: array of string)")


def test_a_parameter_may_have_any_name_and_rich_types(load: Load, site: CallSite) -> None:
    tool = load('''
import datetime, enum
from dataclasses import dataclass
from pydantic import BaseModel

class Colour(enum.Enum):
    RED = "red"

class Inner(BaseModel):
    title: str
    colours: list[Colour] = []

@dataclass
class Point:
    x: int

def look_up(json: Inner, model_config: datetime.date, copy: set[int], schema: tuple[int, str] | None, self_: dict[str, float],
            point: Point = Point(1)):
    """Do."""
    return [json.title, json.colours[0].name, model_config.year, sorted(copy), schema, self_["a"], point.x]
''')
    (schema, _) = Toolset([tool]).openai_schemas()
    assert "$ref" not in json.dumps(schema) and "$defs" not in json.dumps(schema)
    assert schema["function"]["parameters"]["properties"]["json"]["properties"]["title"] == {"type": "string"}
    arguments = {
        "json": {"title": "t", "colours": ["red"]}, "model_config": "2025-03-01", "copy": [2, 1], "schema": None,
        "self_": {"a": 1.5},
    }  # fmt: skip
    assert json.loads(run(tool, site, **arguments).text) == ["t", "RED", 2025, [1, 2], None, 1.5, 1]
    assert "schema" in refusal(tool, {key: value for key, value in arguments.items() if key != "schema"})


GOOD = 'def look_up(word: str) -> str:\n    """Do."""\n    return word\n'


@pytest.mark.parametrize(
    ("source", "line", "named"),
    [
        ("def look_up(word: str):\n    return word\n", 1, "docstring"),
        ('def look_up(word: str):\n    """Args:\n        word: x\n    """\n', 1, "docstring"),
        ('\n\ndef look_up(word):\n    """Do."""\n', 3, "word has no type"),
        ('def look_up(*words: str):\n    """Do."""\n', 1, "*words"),
        ('def look_up(**words: str):\n    """Do."""\n', 1, "**words"),
        ('def look_up(word: str, /):\n    """Do."""\n', 1, "positional only"),
        ('from typing import Any\ndef look_up(word: Any):\n    """Do."""\n', 2, "says nothing to a model"),
        ('def look_up(word: object):\n    """Do."""\n', 1, "says nothing to a model"),
        ('import threading\ndef look_up(word: threading.Lock):\n    """Do."""\n', 2, "parameter word"),
        ('from typing import Callable\ndef look_up(word: Callable[[], int]):\n    """Do."""\n', 2, "parameter word"),
        ('def look_up(word: int = "five"):\n    """Do."""\n', 1, "default does not fit"),
        ('def look_up(word: list[int] = [1, "b"]):\n    """Do."""\n', 1, "default does not fit"),
        ('def look_up(word: float = float("nan")):\n    """Do."""\n', 1, "default is no JSON"),
        ('def look_up(word: str = open):\n    """Do."""\n', 1, "default"),
        ('def look_up(word: str):\n    """Do.\n\n    Args:\n        wrod: x\n    """\n', 1, "wrod"),
        ('def lookup(word: str):\n    """Do."""\n', 1, "def look_up"),
        ("import math\n", 1, "class LookUp"),
        ("from os.path import join as look_up\n", 1, "defines no tool"),
        ('async def look_up(word: str):\n    """Do."""\n', 1, "no async"),
        ('def look_up(word: str):\n    """Do."""\n    yield word\n', 1, "no yield"),
        ("def look_up(:\n", 1, "syntax"),
        ("x = 1\n\n1 / 0\n", 3, "ZeroDivisionError"),
        ("import no_such_module\n", 1, "no_such_module"),
        ("import sys\nsys.exit(3)\n", 2, "SystemExit"),
        (GOOD + 'class LookUp:\n    """Do."""\n    def __call__(self): ...\n', 4, "both a function and a class"),
        ('class LookUp:\n    """Do."""\n', 1, "__call__"),
        ('class LookUp:\n    """Do."""\n    Config = 5\n    def __call__(self): ...\n', 1, "Config must be"),
        ('class LookUp:\n    """Do."""\n    def __init__(self, a): ...\n    def __call__(self): ...\n', 1, "constructor"),
        ('class LookUp:\n    """Do."""\n    @staticmethod\n    def __call__(word: str): ...\n', 1, "ordinary method"),
        ('class LookUp:\n    """Do."""\n    @classmethod\n    def __call__(cls, word: str): ...\n', 1, "ordinary method"),
        ('class LookUp:\n    """Do."""\n    def __call__(): ...\n', 1, "ordinary method"),
        (HEADER + 'def look_up(word: Missing):\n    """Do."""\n', 2, "Missing"),
        (GOOD + 'from karotte_gym import tool\n@tool\ndef other(x: int):\n    """Do."""\n', 6, "other.py"),
        ('from karotte_gym import tool\n@tool(run_in="hots")\ndef look_up():\n    """Do."""\n', 2, "run_in"),
        ('from karotte_gym import tool\n@tool(timeout_s=-1)\ndef look_up():\n    """Do."""\n', 2, "timeout_s"),
        ('from karotte_gym import tool, Sandbox\n@tool(run_in="machine")\ndef look_up(s: Sandbox):\n    """Do."""\n', 3, "function"),
        ('from karotte_gym import tool\n@tool(run_in="machine")\nclass LookUp:\n    """Do."""\n    def __call__(self): ...\n', 3, "function"),
        (HEADER + 'from pydantic import BaseModel\nclass A(BaseModel):\n    a: A | None = None\ndef look_up(a: A):\n    """Do."""\n', 5, "itself"),
    ],
)  # fmt: skip
def test_a_mistake_is_named_with_its_file_and_line(load: Load, source: str, line: int, named: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load(source)
    assert f"look_up.py:{line}: " in str(caught.value), caught.value
    assert named in str(caught.value)
    assert len(str(caught.value)) < 600


@pytest.mark.parametrize("name", ["Look", "look-up", "class", "submit", "2look", "a" * 65])
def test_a_file_whose_name_can_be_no_tools_is_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / "tools").mkdir()
    (tmp_path / "tools" / f"{name}.py").write_text(GOOD)
    with pytest.raises(ConfigError, match=f"{name}.py"):
        tool_files(tmp_path)


def test_helpers_and_neighbours_can_be_imported(tmp_path: Path, site: CallSite) -> None:
    (tmp_path / "tools").mkdir()
    (tmp_path / "tools" / "_shared.py").write_text("WORD = 'shared'\n")
    (tmp_path / "tools" / "first.py").write_text('from ._shared import WORD\ndef first():\n    """Do."""\n    return WORD\n')
    assert list(tool_files(tmp_path)) == ["first"]
    assert run(load_tool(tool_files(tmp_path)["first"], package_of("no.such", tmp_path)), site).text == "shared"


def returning(expression: str) -> str:
    return f'from karotte_gym import *\ndef look_up():\n    """Do."""\n    return {expression}\n'


@pytest.mark.parametrize(
    ("expression", "text", "exit_code"),
    [
        ("None", "", 0),
        ("'plain'", "plain", 0),
        ("{'a': [1, None, 'ü']}", '{"a": [1, null, "ü"]}', 0),
        ("(1, 2)", "[1, 2]", 0),
        ("Scoring(0.5).score", "0.5", 0),
        ("ToolResult('said', exit_code=3)", "said", 3),
        ("CommandResult(b'out\\n', 2, False, 0, 0.1)", "out\n[exit code 2]", 2),
        ("'\\x1b]0;title\\x07a\\0b\\ud800'", "a\u2400b?", 0),
    ],
)
def test_what_a_tool_returns_becomes_a_clean_text(
    load: Load, site: CallSite, expression: str, text: str, exit_code: int
) -> None:
    result = run(load(returning(expression)), site)
    assert (result.text, result.exit_code, result.failed) == (text, exit_code, False)
    assert result.duration_s > 0


@pytest.mark.parametrize("expression", ["'x' * 10_000_000", "CommandResult(b'x' * 10_000_000, 0, False, 0, 0.1)"])
def test_a_long_result_is_cut_and_says_so(load: Load, site: CallSite, expression: str) -> None:
    result = run(load(returning(expression)), site)
    assert len(result.text) <= site.limits.max_output_bytes
    assert result.truncated and "left out" in result.text and result.bytes_out == 10_000_000


@pytest.mark.parametrize(
    ("body", "told"),
    [
        ("raise ValueError('no order 7')", "error: look_up failed: ValueError: no order 7"),
        ("open('/srv/secret place/answers.txt')", "<path>"),
        ("raise ValueError('see file:///srv/x, FILE://host/srv/x')", "see <path>, <path>"),
        ("raise ValueError('C:/srv/x')", "C:<path>"),
        ("raise ValueError('at:/srv/x')", "at:<path>"),
        ("raise ValueError('https://example.org/x')", "https://example.org/x"),
        ("raise ValueError('file:///workdir/x')", "file:///workdir/x"),
        ("raise KeyError('/workdir/data/x')", "'/workdir/data/x'"),
        ("import sys; sys.exit(1)", "SystemExit"),
        ("return object()", "TypeError"),
        ("return float('nan')", "ValueError"),
        ("return {1: {2}}['x']", "KeyError"),
        ("raise RuntimeError('\\x1b[31m' + 'x' * 10_000)", "RuntimeError: xxx"),
        ("raise Bad", "Bad"),
        ("raise Worse", "Worse"),
        ("return ToolResult(None)", "TypeError: the text of"),
        ("return ToolResult('x', exit_code='a')", "TypeError: the exit_code of"),
        ("return ToolResult('x', exit_code=True)", "TypeError: the exit_code of"),
        ("return ToolResult('x', exit_code=2**64)", "TypeError: the exit_code of"),
        ("return ToolResult('x', duration_s='long')", "TypeError: the duration_s of"),
        ("return ToolResult('x', duration_s=float('nan'))", "TypeError: the duration_s of"),
        ("return ToolResult('x', duration_s=-1)", "TypeError: the duration_s of"),
        ("return ToolResult('x', bytes_out=None)", "TypeError: the bytes_out of"),
        ("return ToolResult('x', timed_out='no')", "TypeError: the timed_out of"),
        ("return ToolResult('x', failed=None)", "TypeError: the failed of"),
        ("return ToolResult('x', images=[1])", "TypeError: the images of"),
        ("return ToolResult('x', images=None)", "TypeError: the images of"),
        ("return CommandResult(b'x', 'a', False, 0, 0.1)", "TypeError"),
        ("return CommandResult(None, 0, False, 0, 0.1)", "error: look_up failed"),
        ("def f(): return f()\n    return f()", "RecursionError"),
    ],
)
def test_an_exception_is_an_answer_and_a_warning_with_the_line(load: Load, site: CallSite, body: str, told: str) -> None:
    source = "from karotte_gym import ToolResult\nfrom karotte_gym.sandbox.contract import CommandResult\n"
    source += "class Bad(Exception):\n    def __str__(self): raise OSError\n"
    source += "class Worse(Exception):\n    def __str__(self): raise SystemExit(3)\n"
    tool = load(f'{source}def look_up():\n    """Do."""\n    {body}\n')
    with pytest.warns(RuntimeWarning, match=r"look_up.py(:\d+)?: the tool look_up failed"):
        result = run(tool, site)
    assert told in result.text and len(result.text) < 700 and "\n" not in result.text and "\x1b" not in result.text
    assert "Traceback" not in result.text and "/srv" not in result.text and str(Path.cwd()) not in result.text
    assert (result.exit_code, result.failed) == (1, True)


def test_a_tool_that_fails_ends_no_run_where_warnings_are_errors(
    load: Load, site: CallSite, caplog: pytest.LogCaptureFixture
) -> None:
    tool = load('def look_up():\n    """Do."""\n    raise ValueError(7)\n')
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        result = run(tool, site)
    assert result.text == "error: look_up failed: ValueError: 7"
    assert "the tool look_up failed: ValueError: 7" in caplog.text


@pytest.mark.parametrize(
    "error", [StudentMisbehavior("custody", "x"), MachineDied("gone", cause="exited"), KeyboardInterrupt()]
)
def test_what_the_student_did_to_the_machine_passes_through(load: Load, site: CallSite, error: BaseException) -> None:
    site.context.store  # noqa: B018
    tool = load(
        'from karotte_gym import ToolContext\ndef look_up(c: ToolContext):\n    """Do."""\n    raise c.task_config.error\n'
    )
    context = ToolContext(type("Holder", (), {"error": error})(), site.context.store, site.context.rng, 1, 7)  # type: ignore[arg-type]
    with pytest.raises(type(error)):
        run(tool, CallSite(site.sandbox, site.limits, context))


def test_a_tool_over_its_time_is_given_up_and_its_handle_revoked(load: Load, site: CallSite) -> None:
    tool = load('''
import threading
from karotte_gym import StudentSandbox, ToolContext, tool
seen, go = [], threading.Event()

@tool(timeout_s=0.2)
def look_up(sandbox: StudentSandbox):
    """Do."""
    go.wait(100)
    for handle in (sandbox, sandbox.as_root):
        try:
            seen.append(handle.bash("true", timeout_s=1.0))
        except BaseException as error:
            seen.append(error)
    go.clear()
''')
    started = time.monotonic()
    with pytest.warns(RuntimeWarning, match=r"took over 0.2 s"):
        result = run(tool, site)
    assert time.monotonic() - started < 60, "and not until the tool goes on"
    assert result.timed_out and result.failed and "given up" in result.text
    module = tool._made.__globals__  # type: ignore[attr-defined]
    module["go"].set()
    for thread in [one for one in threading.enumerate() if one.name == "karotte-tool"]:
        thread.join(30)
    assert [type(one).__name__ for one in module["seen"]] == ["Revoked", "Revoked"]
    assert site.sandbox.world.asked == []  # type: ignore[attr-defined]


def test_a_tool_whose_handle_runs_out_first_is_given_up_as_well(load: Load, site: CallSite) -> None:
    """The handle's clock and the waiting thread's agree only to some milliseconds."""
    tool = load('''
from karotte_gym import StudentSandbox

def look_up(sandbox: StudentSandbox):
    """Do."""
    sandbox._deadline = 0
    sandbox.bash("true")
''')
    with pytest.warns(RuntimeWarning, match=r"took over 5 s"):
        result = run(tool, site)
    assert result.timed_out and result.failed and "given up after 5 s" in result.text


def test_a_class_has_an_instance_for_each_episode_and_its_configuration(load: Load, site: CallSite) -> None:
    tool = load('''
from pydantic import BaseModel

class LookUp:
    """Count the calls."""

    class Config(BaseModel):
        start: int = 0

    def __init__(self, config: Config):
        self.count = config.start

    def __call__(self, step: int = 1) -> int:
        """Nothing for the model.

        Args:
            step: How far.
        """
        self.count += step
        return self.count
''')
    toolset = Toolset([tool])
    call = toolset.parse({"name": "look_up"})
    assert isinstance(call, ToolCall)
    assert toolset.openai_schemas()[0]["function"]["description"] == "Count the calls."
    counts = []
    for configuration in ({}, {"look_up": {"start": 10}}, {}):
        toolset.begin_episode(configuration)
        counts.append([toolset.run(call, site).text for _ in range(2)])
    assert counts == [["1", "2"], ["11", "12"], ["1", "2"]]
    for wrong, named in [
        ({"look_up": {"start": "x"}}, "start"),
        ({"other": {}}, "other"),
        ({"submit": {}}, "submit"),
        (5, "mapping"),
    ]:
        with pytest.raises(ConfigError, match=named):
            toolset.configure(wrong)  # type: ignore[arg-type]


def test_a_function_takes_no_configuration(load: Load) -> None:
    with pytest.raises(ConfigError, match="class Config"):
        Toolset([load(GOOD)]).configure({"look_up": {}})


def test_root_is_only_reached_by_its_name(load: Load, site: CallSite) -> None:
    """What an unguarded handle would give: `put_file` of the machine itself writes as root."""
    source = (
        'from karotte_gym import Sandbox\ndef look_up(path: str, s: Sandbox):\n    """Do."""\n    {}.put_file(path, b"x")\n'
    )
    with pytest.warns(RuntimeWarning, match="as_root.put_file"):
        assert run(load(source.format("s")), site, path="/etc/shadow").failed
    assert site.sandbox.files == {}  # type: ignore[attr-defined]
    assert not run(load(source.format("s.as_root")), site, path="/etc/shadow").failed
    assert site.sandbox.files == {"/etc/shadow": b"x"}  # type: ignore[attr-defined]


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


def test_an_interrupt_in_the_middle_of_a_tool_leaves_the_machine_to_the_next_call(load: Load, site: CallSite) -> None:
    """Ctrl-C reaches the thread that waits, not the tool; a handle still good would act beside the next call."""
    tool = load('''
import threading
from karotte_gym import StudentSandbox
begun, go, done, seen = threading.Event(), threading.Event(), threading.Event(), []

def look_up(sandbox: StudentSandbox):
    """Do."""
    begun.set()
    go.wait(100)
    try:
        sandbox.bash("true")
    except Exception as error:
        seen.append(type(error).__name__)
    done.set()
''')
    module = tool._made.__globals__  # type: ignore[attr-defined]

    main = threading.get_ident()

    def interrupt() -> None:
        module["begun"].wait(30)
        signal.pthread_kill(main, signal.SIGINT)

    threading.Thread(target=interrupt).start()
    with pytest.raises(KeyboardInterrupt):
        run(tool, site)
    module["go"].set()
    assert module["done"].wait(30)
    assert (module["seen"], site.sandbox.world.asked) == (["Revoked"], [])  # type: ignore[attr-defined]


def test_a_student_can_not_fill_the_memory_with_warnings(load: Load, site: CallSite) -> None:
    """Python keeps every text that it warned of; each of these would be a new one."""
    tool = load('def look_up(number: int):\n    """Do."""\n    raise ValueError(number)\n')
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        for number in range(MAX_WARNINGS + 10):
            assert str(number) in run(tool, site, number=number).text
    assert len(told) == MAX_WARNINGS
    assert "transcripts alone" in str(told[-1].message)


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)


@pytest.fixture(scope="module")
def described(tmp_path_factory: pytest.TempPathFactory) -> Toolset:
    folder = tmp_path_factory.mktemp("described")
    (folder / "tools").mkdir()
    (folder / "tools" / "look_up.py").write_text(DESCRIBED)
    return Toolset([load_tool(tool_files(folder)["look_up"], package_of("no.such", folder))])


@given(
    st.fixed_dictionaries(
        {}, optional={"word": ANYTHING, "limit": ANYTHING, "order": ANYTHING, "tags": ANYTHING, "x": ANYTHING}
    )
    | ANYTHING
)
def test_no_arguments_raise_and_those_that_fit_are_plain_json(described: Toolset, arguments: object) -> None:
    call = described.parse({"name": "look_up", "arguments": arguments})
    if isinstance(call, ToolCall):
        assert json.loads(json.dumps(call.arguments, allow_nan=False)) == call.arguments
        assert isinstance(call.arguments["word"], str)
    else:
        assert call.startswith("error: ") and call.encode() and len(call) < 1500
