"""Makes text of what a machine printed: `clean`. Nothing in it may move a cursor, hide text or break a file of JSON.

A student's output is shown in terminals, logs and transcripts of people who trust them. A terminal escape can rename a
window, hide what was printed before it or, in bad terminals, type. What only decorates is removed; what is left of the
control characters is shown as the picture that Unicode has for it.
"""

from __future__ import annotations

import re

from karotte_gym.guest.file_text import PICTURES

__all__ = ["clean"]

# No repetition takes in what could begin another match: a million openings without an end are each looked at once.
_ESCAPES = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]{0,64}[ -/]{0,8}[@-~]"  # CSI: colours, movements, modes
    r"|(?:\x1b\]|\x9d)[^\x07\x1b\x90\x98\x9c-\x9f\n]{0,2048}(?:\x07|\x1b\\|\x9c)"  # OSC: titles, links
    r"|(?:\x1b[PX^_]|[\x90\x98\x9e\x9f])[^\x1b\x90\x98\x9c-\x9f\n]{0,2048}(?:\x1b\\|\x9c)"  # DCS, SOS, PM, APC
    r"|\x1b[ -/]{1,8}[0-~]"  # character sets
    r"|\x1b[=>78cDEHMNOZn-~]"  # single shifts, resets
)
_OVERSTRIKE = re.compile(r"[^\n\x08]\x08")  # bold and underline of manual pages


def clean(data: bytes) -> str:
    """Text of `data`: no control character but tab and newline, no escape, each line as a terminal would leave it."""
    text = data.decode("utf-8", "replace")
    if "\x1b" in text or any("\x90" <= mark <= "\x9f" for mark in set(text)):
        text = _ESCAPES.sub("", text)
    if "\r" in text:
        text = "\n".join(_last_state(line) for line in text.split("\n"))
    if "\x08" in text:
        text = _OVERSTRIKE.sub("", text)
    return text.translate(PICTURES)


def _last_state(line: str) -> str:
    """A line that was written over by carriage returns, as a progress bar is: the last of its states."""
    return next((state for state in reversed(line.split("\r")) if state), "")
