"""Reads a tool's docstring: the first paragraph is for the model, the lines of ``Args:`` describe the parameters."""

from __future__ import annotations

import inspect
import re
from dataclasses import dataclass

__all__ = ["Described", "read_docstring"]

_SECTION = re.compile(r"(Args|Arguments|Parameters|Returns|Return|Yields|Raises|Examples?|Notes?):\s*$")
_OF_PARAMETERS = ("Args", "Arguments", "Parameters")
_ENTRY = re.compile(r"\*{0,2}(\w+)\s*(?:\([^)]*\))?:\s*(.*)")


@dataclass(frozen=True, slots=True)
class Described:
    """`text` is the first paragraph; what follows it is for whoever reads the file, and no model sees it."""

    text: str
    parameters: dict[str, str]


def read_docstring(docstring: str | None) -> Described:
    """Both parts; empty where there are none."""
    lines = inspect.cleandoc(docstring or "").splitlines()
    first: list[str] = []
    for line in lines:
        if not line.strip() or _SECTION.fullmatch(line):
            break
        first.append(line)
    return Described("\n".join(first), _entries(_section(lines)))


def _section(lines: list[str]) -> list[str]:
    """The lines below ``Args:``, up to the next section."""
    found: list[str] = []
    inside = False
    for line in lines:
        heading = _SECTION.fullmatch(line)
        if heading:
            inside = heading[1] in _OF_PARAMETERS
        elif inside and line and not line[0].isspace():
            inside = False
        elif inside and line.strip():
            found.append(line)
    return found


def _entries(lines: list[str]) -> dict[str, str]:
    """``name: text`` each; a line that is further in goes on with the one above."""
    entries: dict[str, str] = {}
    name = ""
    margin = min((len(line) - len(line.lstrip()) for line in lines), default=0)
    for line in lines:
        entry = _ENTRY.fullmatch(line[margin:])
        if entry:
            name = entry[1]
            entries[name] = entry[2].strip()
        elif name:
            entries[name] = f"{entries[name]} {line.strip()}".strip()
    return entries
