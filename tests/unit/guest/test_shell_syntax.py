"""The shortcuts around ``bash -n`` never say more than bash would: the real bash is asked about each claim."""

from __future__ import annotations

import subprocess

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from karotte_gym.guest.shell_syntax import is_empty, is_plain, must_be_asked_about

PIECES = [
    "a", "echo", "x=1", "'q q'", '"d d"', "$x", "$(a)", '"$(a b)$x"', "$'", "2>&1", "> f", "|", "||", "&&", ";", "&", "if",
    "done", "!", "{", "}", "(", ")", "<<E", "\\", "`", "#", "$(", "${", "=(", "\n", " ", "$", "'", '"', "*", "~", "-", "[",
    "[[", "time",
]  # fmt: skip


def bash_accepts(text: str) -> bool:
    done = subprocess.run(["/bin/bash", "--norc", "-n"], input=text.encode(), capture_output=True, timeout=20)
    return done.returncode == 0 and not done.stderr


@settings(max_examples=250)
@given(st.lists(st.sampled_from(PIECES), min_size=1, max_size=8).map("".join))
def test_what_is_plain_is_whole_and_can_be_wrapped(text: str) -> None:
    if is_plain(text):
        assert bash_accepts(text), text
        assert bash_accepts("{ " + text + "\n\n}\n"), text


@pytest.mark.parametrize(
    "text",
    [
        "true",
        "ls -la | head -5",
        "echo 'a b' > f && cat f",
        "export A=b; env",
        'grep "x y" f 2>&1',
        "x=$(ls -la | wc -l); echo $x",
        'echo "today: $(date +%s), home: $HOME"',
        "echo a$(echo 'b c')d > $(pwd)/f",
    ],
)
def test_everyday_commands_are_plain(text: str) -> None:
    assert is_plain(text)


@settings(max_examples=250)
@given(st.lists(st.sampled_from(PIECES), min_size=1, max_size=8).map("".join))
def test_what_would_leave_its_group_is_asked_about(text: str) -> None:
    """A text that is wrong by itself but right in the wrapping must be one of those that bash is asked about first."""
    if not bash_accepts(text) and bash_accepts("{ " + text + "\n\n}\n"):
        assert must_be_asked_about(text) or is_empty(text), text


@pytest.mark.parametrize(
    ("text", "empty"), [("", True), (" \t\n", True), ("# a\n #b", True), ("a # b", False), ("#\na", False)]
)
def test_empty_commands(text: str, empty: bool) -> None:
    assert is_empty(text) is empty


def test_no_text_takes_long() -> None:
    for text in (
        "a;" * 100_000 + ")",
        "#" * 200_000,
        "\n" * 200_000 + "x",
        "a'" * 100_000,
        "$(a " * 450,
        "$(a a" * 390 + "!",
        "a" * 1900 + "$(" + "a " * 40 + "!",
        '"' + "$(a|b)" * 300 + "!",
        "} " * 100_000,
        " " * 200_000 + "}",
    ):
        is_empty(text), is_plain(text), must_be_asked_about(text)
