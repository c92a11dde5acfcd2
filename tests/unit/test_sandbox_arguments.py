"""What no program can be given is refused on the host, with a sentence, before a machine is asked."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from karotte_gym.sandbox.arguments import checked_argv, checked_env, checked_path
from karotte_gym.sandbox.machine_sandbox import MachineSandbox

NO_MACHINE = MachineSandbox.__new__(MachineSandbox)  # whatever it was asked would be an AttributeError


@pytest.mark.parametrize(
    ("ask", "named"),
    [
        (lambda machine, text: machine.run(["/usr/bin/stat", f"/workdir/{text}"], user="root"), r"argv\[1\]"),
        (lambda machine, text: machine.run(["/bin/true"], cwd=f"/workdir/{text}"), "cwd"),
        (lambda machine, text: machine.run(["/bin/true"], env={"A": text}), r"env\['A'\]"),
        (lambda machine, text: machine.run(["/bin/true"], env={text: "A"}), "a name in env"),
        (lambda machine, text: machine.put_file(f"/workdir/{text}", b""), "a path"),
        (lambda machine, text: machine.get_file(f"/workdir/{text}", max_bytes=1), "a path"),
        (lambda machine, text: machine.delete_files(1000, include=[f"/workdir/{text}"]), "a path"),
    ],
)
@pytest.mark.parametrize(("text", "why"), [("a\0b", "a NUL"), ("\ud800", "half a character")])
def test_text_of_a_students_that_is_none_is_named(ask: Callable[..., Any], named: str, text: str, why: str) -> None:
    with pytest.raises(ValueError, match=f"{named} contains {why}"):
        ask(NO_MACHINE, text)


@pytest.mark.parametrize("argv", [[], "/bin/ls", ["/bin/ls", 5], [None], [b"/bin/ls"]])
def test_what_is_no_list_of_texts_is_named(argv: Any) -> None:
    with pytest.raises((ValueError, TypeError), match="argv"):
        NO_MACHINE.run(argv)


def test_a_relative_path_and_a_strange_variable_are_named() -> None:
    with pytest.raises(ValueError, match="absolute"):
        checked_path("out/x.txt")
    for name in ("", "a=b"):
        with pytest.raises(ValueError, match="env"):
            checked_env({name: "x"})


def test_bytes_of_a_files_name_that_are_no_text_pass() -> None:
    name = b"/workdir/\xff".decode("utf-8", "surrogateescape")
    assert checked_argv(("/bin/cat", name)) == ["/bin/cat", name] and checked_path(name) == name
