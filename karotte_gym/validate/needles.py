"""The strings that the student must not find: what grading data and the right answer consist of.

A short file (a number, a few lines, a small JSON object) is secret value by value. A long one is secret as a whole: a
table of expected rows shares a row with the data it was made from, and a program shares its imports, so there one line
proves nothing and half of the lines do. What the instructions say anyway, or the task declares in `known_to_student`,
is no secret; nor is a date.
"""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from karotte_gym.task import Task
from karotte_gym.validate.unpacked import packed_in

__all__ = ["Needle", "is_secret", "needles_in", "needles_of_folder", "told_by", "without_known"]

MIN_CHARS, MIN_DIGITS = 6, 5  # shorter ones turn up by chance
KEY_CHARS = 12  # a token of letters and digits that is so long is a key, wherever it stands
SHORT_LINES, SHORT_VALUES = 5, 50
MAX_CHARS = 200  # of one string
MAX_STRINGS = 1000  # of one file: half of so many decides as well as half of all
MAX_FILE_BYTES = 4 * 1024 * 1024
BINARY_SAMPLE = 32
DATE = re.compile(r"\d{4}-\d\d-\d\d([T ]\d\d:\d\d(:\d\d)?Z?)?|\d\d:\d\d(:\d\d)?")
NUMBER = re.compile(r"(?<![\w.])\d++(?:\.\d++)?+(?![\w.]*\w)")
TOKEN = re.compile(r"[A-Za-z0-9_+/.=-]+")
VALUE = re.compile(r"[A-Za-z_][\w .-]*[:=]\s*(\S.*)")  # of `key: value` and `key=value`


@dataclass(frozen=True, slots=True)
class Needle:
    """One string. `whole` is 0 when it is a secret by itself, else how many of its file's strings are searched for."""

    text: bytes
    source: str
    whole: int = 0

    @property
    def shown(self) -> str:
        """Enough to recognise it by: a report is no place for answers."""
        text = self.text.decode("utf-8", "replace")
        return f"{text[:2]!r}... ({len(text)} characters)"


def needles_of_folder(folder: Path) -> list[Needle]:
    """Of every file below a folder; [] when it is not there."""
    found: list[Needle] = []
    for path in sorted(path for path in folder.rglob("*") if path.is_file() and "__pycache__" not in path.parts):
        with open(path, "rb") as stream:
            found += needles_in(stream.read(MAX_FILE_BYTES), f"{folder.name}/{path.relative_to(folder)}")
    return found


def needles_in(data: bytes, source: str) -> list[Needle]:
    """Of one file's bytes."""
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        return _binary(data, source)
    return _of_text(text, source)


def _of_text(text: str, source: str) -> list[Needle]:
    alone, together = _values(text)
    found = [Needle(_encoded(value), source) for value in dict.fromkeys(alone) if is_secret(value)]
    whole = [value for value in dict.fromkeys(together) if is_secret(value)][:MAX_STRINGS]
    return found[:MAX_STRINGS] + [Needle(_encoded(value), source, len(whole)) for value in whole]


def without_known(needles: Iterable[Needle], task: type[Task]) -> list[Needle]:
    """Without what the student is told."""
    told = "\n".join([*told_by(task), *task.known_to_student]).encode()
    return [needle for needle in dict.fromkeys(needles) if needle.text not in told]


def told_by(task: type[Task]) -> list[str]:
    """The texts that a student reads: the system prompt, then each step's instructions."""
    return [task.system_prompt, *(step.instructions for step in task.steps)]


def _values(text: str) -> tuple[list[str], list[str]]:
    """Strings that are secret by themselves, and those that are so together."""
    try:
        leaves = list(_leaves(json.loads(text)))
    except (ValueError, RecursionError):
        leaves = []
    if len(leaves) > 1:
        return (leaves, []) if len(leaves) <= SHORT_VALUES else ([], leaves)
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    values = [match[1] for line in lines if (match := VALUE.fullmatch(line))]
    text = DATE.sub(" ", text)
    if len(lines) <= SHORT_LINES:
        return [*lines, *values, *_numbers(text), *_keys(text, MIN_CHARS)], []
    return _keys(text, KEY_CHARS), lines


def _leaves(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for each in value.values():
            yield from _leaves(each)
    elif isinstance(value, list):
        for each in value:
            yield from _leaves(each)
    elif isinstance(value, str):
        yield value.strip()
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield str(value)


def _numbers(text: str) -> list[str]:
    return NUMBER.findall(text)


def _keys(text: str, min_chars: int) -> list[str]:
    """Tokens of letters and digits: words and numbers apart are dealt with elsewhere."""
    tokens = (token for token in TOKEN.findall(text) if len(token) >= min_chars)
    return [token for token in tokens if re.search(r"\d", token) and re.search(r"[A-Za-z]", token)]


def is_secret(value: str) -> bool:
    """Whether the text is long enough to be found by more than chance, and no date."""
    if DATE.fullmatch(value):
        return False
    digits = sum(letter.isdigit() for letter in value)
    return len(value) >= MIN_CHARS if digits < len(value) - 1 else digits >= MIN_DIGITS


def _encoded(value: str) -> bytes:
    return value[:MAX_CHARS].encode()


def _binary(data: bytes, source: str) -> list[Needle]:
    """What is packed in it, or what it says in another encoding; and of all that is no text its middle."""
    found = [needle for _, content in packed_in(data) for needle in needles_in(content, source)]
    if data[:2] in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE):
        found += _of_text(data.decode("utf-16", "replace"), source)
    elif not found and (text := data.decode("latin-1")).replace("\n", "").replace("\r", "").replace("\t", "").isprintable():
        found += _of_text(text, source)
    return found + _sample(data, source)


def _sample(data: bytes, source: str) -> list[Needle]:
    """Of a binary file its middle."""
    middle = max(0, len(data) // 2 - BINARY_SAMPLE // 2)
    sample = data[middle : middle + BINARY_SAMPLE]
    return [Needle(sample, source)] if len(set(sample)) >= MIN_CHARS else []
