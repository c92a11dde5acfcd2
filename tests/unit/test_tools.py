"""Whatever a model writes is a call or a short error text; whatever a machine prints is harmless text."""

from __future__ import annotations

import json
from typing import Any

import pytest
from growth import TOO_MUCH, growth
from hypothesis import given
from hypothesis import strategies as st

from karotte_gym.guest.wire import MAX_HEADER_BYTES, encode
from karotte_gym.tools import ToolCall, clean
from karotte_gym.tools.builtin import BUILTIN
from karotte_gym.tools.call import MAX_ARGUMENTS_BYTES, parse_action
from karotte_gym.tools.schemas import mcp_schemas, openai_schemas, signature

TOOLS = BUILTIN
ONLY_BASH = {"bash": BUILTIN["bash"]}


def bash(**arguments: Any) -> ToolCall | str:
    return parse_action({"name": "bash", "arguments": arguments}, TOOLS)


def test_the_forms_of_a_call() -> None:
    wanted = {"command": "ls"}
    assert parse_action({"name": "bash", "arguments": wanted}, TOOLS) == ToolCall("bash", wanted)
    assert parse_action({"name": "bash", "arguments": json.dumps(wanted)}, TOOLS) == ToolCall("bash", wanted)
    openai = {"id": "call_1", "type": "function", "function": {"name": "bash", "arguments": json.dumps(wanted)}}
    assert parse_action(openai, TOOLS) == ToolCall("bash", wanted, "call_1")
    assert parse_action({"name": "submit"}, TOOLS) == ToolCall("submit", {})
    assert parse_action({"name": "submit", "arguments": None}, TOOLS) == ToolCall("submit", {})
    assert bash(command="ls", timeout=None, restart=None) == ToolCall("bash", wanted)
    assert bash(command=None, restart=True) == bash(restart=True)
    assert bash(restart=True) == ToolCall("bash", {"command": "", "restart": True})


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({}, "command"),
        ({"command": None}, "command"),
        ({"command": ["ls"]}, "command"),
        ({"command": "a\0b"}, "NUL"),
        ({"command": "a\ud800"}, "surrogate"),
        ({"command": "a", "timeout": 0}, "greater than 0"),
        ({"command": "a", "timeout": -1}, "greater than 0"),
        ({"command": "a", "timeout": float("nan")}, "finite"),
        ({"command": "a", "timeout": float("inf")}, "finite"),
        ({"command": "a", "timeout": 1e308}, "less than or equal"),
        ({"command": "a", "timeout": 10**400}, "timeout"),
        ({"command": "a", "timeout": "5"}, "timeout"),
        ({"command": "a", "timeout": True}, "timeout"),
        ({"command": "a", "restart": "yes"}, "restart"),
        ({"command": "a", "user": "root"}, "user"),
        ({"command": "x" * 300_000}, "too long"),
        ("", "JSON"),
        ("{", "JSON"),
        ("{} {}", "JSON"),
        ('{"command": NaN}', "JSON"),
        ('{"command": "a", "command": "b"}', "twice"),
        ('{"command": "a", "timeout": ' + "9" * 5000 + "}", "JSON"),
        ("[" * 100_000, "nested"),
        ("[1]", "object"),
        (7, "object"),
        ([], "object"),
        ({1: 2}, "text"),
    ],
)
def test_what_is_wrong_is_named_in_one_short_line(arguments: object, named: str) -> None:
    answer = parse_action({"name": "bash", "arguments": arguments}, TOOLS)
    assert isinstance(answer, str) and named in answer and len(answer) < 500 and "\n" not in answer
    assert "\0" not in answer and answer.encode()


@pytest.mark.parametrize(
    "action", [None, 7, "ls", [], (), object(), {}, {"name": 5}, {"name": "x"}, {"name": "bash\ud800"}, {"function": 5}]
)
def test_what_is_no_call_is_told_so(action: object) -> None:
    answer = parse_action(action, TOOLS)
    assert isinstance(answer, str) and answer.startswith("error: ") and answer.encode()


class _Hostile(dict):  # type: ignore[type-arg]
    def get(self, *_: object) -> object:
        raise OSError("no")

    def __repr__(self) -> str:
        raise OSError("no")


def test_an_object_that_raises_when_it_is_looked_at_does_not_raise_here() -> None:
    assert isinstance(parse_action(_Hostile(), TOOLS), str)


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary(),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text() | st.sampled_from(["name", "arguments", "function", "command"]), inner, max_size=4)
    ),
    max_leaves=12,
)


@given(ANYTHING)
def test_nothing_raises(action: object) -> None:
    assert isinstance(parse_action(action, TOOLS), ToolCall | str)


@given(st.sampled_from(sorted(TOOLS)), ANYTHING | st.text())
def test_no_arguments_raise(name: str, arguments: object) -> None:
    assert isinstance(parse_action({"name": name, "arguments": arguments}, TOOLS), ToolCall | str)


@pytest.mark.parametrize("letter", ["a", "é", "\x01", "😀", '"'])
def test_the_longest_call_fits_a_frame(letter: str) -> None:
    for count in (
        MAX_ARGUMENTS_BYTES,
        MAX_ARGUMENTS_BYTES // 2 - 50,
        MAX_ARGUMENTS_BYTES // 6 - 50,
        MAX_ARGUMENTS_BYTES // 12 - 50,
    ):
        call = bash(command=letter * count)
        if isinstance(call, ToolCall):
            assert encode(
                {"id": 2**31, "method": "bash", "params": call.arguments | {"timeout_s": 1.5, "max_output_bytes": 65536}}
            )
            return
    raise AssertionError(f"no length fits, of at most {MAX_HEADER_BYTES}")


def test_schemas_say_what_is_checked() -> None:
    (tool,) = openai_schemas(ONLY_BASH)
    parameters = tool["function"]["parameters"]
    assert tool["type"] == "function" and tool["function"]["name"] == "bash" and tool["function"]["description"]
    assert parameters["required"] == ["command"] and parameters["additionalProperties"] is False
    assert set(parameters["properties"]) == {"command", "timeout", "restart"}
    assert mcp_schemas(ONLY_BASH)[0]["inputSchema"] == parameters
    assert "title" not in json.dumps(openai_schemas(TOOLS)) and "anyOf" not in json.dumps(openai_schemas(TOOLS))
    said = signature("view_lines_in_file", BUILTIN["view_lines_in_file"])
    assert said == "view_lines_in_file(path: string, start: integer, end: integer)"


def test_schemas_are_fresh_each_time() -> None:
    openai_schemas(ONLY_BASH)[0]["function"]["parameters"]["properties"].clear()
    assert openai_schemas(ONLY_BASH)[0]["function"]["parameters"]["properties"]


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"plain\ttext\n", "plain\ttext\n"),
        ("Möhre 胡萝卜".encode(), "Möhre 胡萝卜"),
        (b"a\0b", "a\u2400b"),
        (b"\xff\xe2\x82", "\ufffd\ufffd"),
        (b"a\r\nb\r\n", "a\nb\n"),
        (b" 1%\r 50%\r100%\n", "100%\n"),
        (b"\r" * 1000 + b"x\n", "x\n"),
        (b"\x1b[31mred\x1b[0m", "red"),
        (b"\x1b]0;title\x07a\x1b]8;;http://x\x1b\\b", "ab"),
        (b"\x1b[2J\x1b[?1049h\x1bP$q\x1b\\\x1b(Bx", "x"),
        (b"\x1b", "\u241b"),
        (b"\x1b[" + b"9" * 100 + b"m", "\u241b[" + "9" * 100 + "m"),
        (b"N\x08No\x08o", "No"),
        (b"\x08\x08a", "\u2408\u2408a"),
        (b"\x07\x0b\x0c\x7f", "\u2407\u240b\u240c\u2421"),
    ],
)
def test_what_a_machine_prints_becomes_harmless_text(data: bytes, text: str) -> None:
    assert clean(data) == text


@given(st.binary(max_size=400))
def test_no_control_character_survives(data: bytes) -> None:
    assert not [c for c in clean(data) if (ord(c) < 32 and c not in "\t\n") or 0x7F <= ord(c) < 0xA0]


@pytest.mark.parametrize(
    "data",
    [
        b"\x1b]" * 500_000,
        b"\x1b[" * 500_000,
        b"\x1bP" * 500_000,
        b"\r" * 1_000_000,
        b"x\x08" * 500_000,
        b"\x1b]" + b"x" * 1_000_000,
    ],
)
def test_no_output_takes_long_or_grows(data: bytes) -> None:
    assert len(clean(data)) <= len(data)


OPENERS = ["\x90", "\x98", "\x9b", "\x9d", "\x9e", "\x9f", "\x1b[", "\x1b[0;", "\x1b]", "\x1bP", "\x1bX", "\x1b_", "\x1b "]


@pytest.mark.parametrize("opener", [*OPENERS, *(f"{opener}x" for opener in OPENERS), "\r", "a\r", "\x08", "a\x08"])
def test_what_begins_and_never_ends_costs_no_more_than_its_length(opener: str) -> None:
    """Half a megabyte of U+009D took twenty seconds, in which the interpreter did nothing else."""
    assert growth(lambda count: clean((opener * count).encode()), 250) < TOO_MUCH


@pytest.mark.parametrize("action", [{}, {"nam": "bash"}, {"name": 5}, {"function": {}}])
def test_an_action_without_a_name_is_told_what_a_call_needs(action: object) -> None:
    answer = parse_action(action, TOOLS)
    assert isinstance(answer, str) and 'a call needs "name", a text, and "arguments"' in answer
