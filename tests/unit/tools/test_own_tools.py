"""A file in ``tools/`` becomes a tool, or a sentence with its line."""

# ruff: noqa: E501 - sources of tools, one a line
from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from own_tools import Load, refusal, run

from karotte_gym import ConfigError
from karotte_gym.tools.call import ToolCall
from karotte_gym.tools.definition import CallSite
from karotte_gym.tools.own import load_tool
from karotte_gym.tools.own_files import package_of, tool_files
from karotte_gym.tools.toolset import Toolset

HEADER = "from __future__ import annotations\n"


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
