"""Shows a submission to a model as data: inside marks that it can't know, in lines that it can't fake.

Whoever wrote the submission may write to the model that judges it: orders, a forged end of the data, a forged answer, a
forged turn of the chat. None of that can be told from honest text by its words, so it is told by its place:

- The marks hold 128 random bits, drawn after the submission was taken. A forged mark has other bits.
- Every line of the submission begins with ``| ``, every line of ours inside the marks with ``# ``. No line of the
  submission can stand at the left edge, so even a mark that leaked would not end the data.
- Tokens with which servers part the turns of a chat (``<|im_start|>``, ``[INST]``, ``[|user|]``, ``</s>``) are broken by a
  backslash, or a local server would read them as what they say. Characters that nobody sees are written as ``\\u{...}``.
"""

from __future__ import annotations

import re
import secrets
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass

__all__ = ["Document", "Fenced", "copied", "enclose"]

MARK_BYTES = 16
# < before anything but a blank, a digit, = or another < (so comparisons and shifts stay as they are); [ before a bar, before
# capitals ([INST], [gMASK], [/TOOL_CALLS]) and before the name of a speaker ([user], [/assistant])
_TOKEN_START = re.compile(
    r"[<＜](?=[^\s\d=<])|[\[［](?=[|｜]|/?[a-z]*[A-Z][A-Z\d_]*[\]］]|/?(?i:system|user|human|assistant|bot|model|tool)[\]］])"
)
_UNSEEN = frozenset({"Cc", "Cf", "Cn", "Co", "Cs", "Zl", "Zp"})  # controls, formats (bidi, tags, joiners), unassigned
# Letters and marks by their category, and yet seen by nobody: selectors, fillers, joiners. Any text can be written in them.
_FILLERS = re.compile("[\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0\ufe00-\ufe0f\U000e0100-\U000e01ef]")


@dataclass(frozen=True, slots=True)
class Document:
    """One part of what is judged; `text` None: it was not handed in. Title and text may be the student's."""

    title: str
    text: str | None


@dataclass(frozen=True, slots=True)
class Fenced:
    """The block to show, and the lines that begin and end it."""

    block: str
    begin: str
    end: str


def copied(documents: Sequence[Document]) -> list[str]:
    """All documents as the lines to stand between marks: the same for every question, and the costly part."""
    return [line for document in documents for line in _lines(document)]


def enclose(lines: Sequence[str]) -> Fenced:
    """Lines of `copied` between marks that nobody has seen before."""
    mark = secrets.token_hex(MARK_BYTES)
    begin, end = f"BEGIN SUBMISSION {mark}", f"END SUBMISSION {mark}"
    return Fenced("\n".join([begin, *lines, end]), begin, end)


def _lines(document: Document) -> list[str]:
    title = " ".join(visible(document.title).split())
    if document.text is None:
        return [f"# {title}: not handed in"]
    return [f"# {title}:", *(f"| {visible(line)}" for line in document.text.splitlines())]


def visible(line: str) -> str:
    """A line in which everything is seen and nothing is a token of a chat's structure."""
    if not line.isascii() or not line.isprintable():
        line = "".join(letter if _is_seen(letter) else f"\\u{{{ord(letter):x}}}" for letter in line)
    return _TOKEN_START.sub(lambda start: start.group() + "\\", line)


def _is_seen(letter: str) -> bool:
    return letter == "\t" or not (unicodedata.category(letter) in _UNSEEN or _FILLERS.match(letter))
