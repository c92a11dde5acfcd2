"""Checks what a caller on the host hands to a machine's methods as root, before any of it is sent.

A hook or a tool may have made an argument list or a path of what a student wrote. What no program can be given is a
ValueError with a sentence here; the agent's refusal of the same (``bad-params``) would read as a mistake in a call of ours.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

__all__ = ["checked_argv", "checked_env", "checked_path", "checked_paths", "checked_text"]


def checked_argv(argv: Sequence[str]) -> list[str]:
    """A program and its arguments."""
    if isinstance(argv, str) or not argv:
        raise ValueError(f'argv must be a list of at least one text, such as ["/bin/ls", "-l"], not {argv!r:.100}')
    return [checked_text(f"argv[{number}]", word) for number, word in enumerate(argv)]


def checked_env(env: Mapping[str, str] | None) -> dict[str, str] | None:
    """Variables; a name has no ``=``."""
    if env is None:
        return None
    for name, value in env.items():
        if not checked_text("a name in env", name) or "=" in name:
            raise ValueError(f"a name in env must be text without =, not {name!r:.100}")
        checked_text(f"env[{name!r:.100}]", value)
    return dict(env)


def checked_path(path: str) -> str:
    """An absolute path; whether there is such a file is the machine's to say."""
    if not checked_text("a path", path).startswith("/"):
        raise ValueError(f"a path must be absolute, not {path!r:.100}")
    return path


def checked_paths(paths: Sequence[str]) -> list[str]:
    """Several of them."""
    return [checked_path(path) for path in paths]


def checked_text(name: str, value: object) -> str:
    """Text without NUL. Bytes that are no UTF-8 may be in it as Python has them in names of files (``surrogateescape``)."""
    if not isinstance(value, str):
        raise TypeError(f"{name} must be text, not {value!r:.100}")
    if "\0" in value:
        raise ValueError(f"{name} contains a NUL: {value!r:.100}")
    try:
        value.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        raise ValueError(f"{name} contains half a character (a lone surrogate): {value!r:.100}") from None
    return value
