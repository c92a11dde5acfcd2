"""Puts made-up messages of `submit` before judges that read them, with nothing handed in: none may score.

A message costs nothing and may be as long as the student likes, so a pattern that finds the right one anywhere pays for
all guesses at once, and one that describes what an answer looks like pays for any.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from karotte_gym.judges.base import Judge
from karotte_gym.judges.messages import submitted_message
from karotte_gym.judges.regex import MESSAGES, RegexJudge
from karotte_gym.validate.bench import Bench, parts_of
from karotte_gym.validate.finding import Finding, fail, not_checked, ok, warn
from karotte_gym.validate.made_up import nothing_of

__all__ = ["check_submit_messages", "is_anchored", "made_up_messages"]

GUESSES = 100
FLAGS = re.compile(r"\(\?([a-zA-Z]+)\)")
FIX = r"pin the whole message: RegexJudge(r'\A...\z'), or let a file be handed in"


def check_submit_messages(bench: Bench) -> Iterator[Finding]:
    """Every step with a judge that looks for a pattern in the message."""
    count = 0
    for number, step in bench.steps():
        patterns = [part for part in parts_of(step.judge) if isinstance(part, RegexJudge) and part.where == MESSAGES]
        for pattern in patterns:
            if not is_anchored(pattern.pattern):
                yield warn(f"step {number + 1} looks for {pattern.pattern!r} anywhere in the message", FIX)
        if patterns and bench.live and step.judge not in patterns:
            yield not_checked(f"step {number + 1}: the live machine is graded, so that no message could be made up")
            continue
        for what, text in made_up_messages(step.instructions, _said(bench, number)) if patterns else ():
            count += 1
            if (score := _score(bench, step.judge, number, text)) > 0:
                yield fail(f"step {number + 1}: submitting nothing but a message ({what}) scores {score:g}", FIX)
    if not count:
        yield ok("no pattern is looked for in what is said")


def made_up_messages(instructions: str, right: str) -> list[tuple[str, str]]:
    """What each is, and its text. `right` is what the solution said, "" when it said nothing."""
    made = [
        ("one word", "done"),
        ("the instructions", instructions),
        ("numbers", "\n".join("1234567890"[:digits] for digits in range(1, 11))),
        ("noise", "zq " * 100 + "{}[]<>\"'\\%$!?.,;:\u00e9\u4e2d\n" * 3),
    ]
    if right.strip():
        other = right.translate(_others())
        guesses = "\n".join(f"guess {number}" for number in range(GUESSES))
        made += [
            ("other letters and digits in the form of the right one", other),
            ("the right one among guesses", f"{guesses}\n{right}\n{guesses}"),
        ]
    return [(what, text) for what, text in made if text.strip() != right.strip()]


def is_anchored(pattern: str) -> bool:
    r"""Whether it begins with ``\A`` and ends with ``\z`` (or ``^`` and ``$``), with no other choice beside."""
    flags = FLAGS.match(pattern)
    lines = flags is not None and "m" in flags[1]
    bare = pattern[flags.end() :] if flags else pattern
    begins = bare.startswith(r"\A") or (bare.startswith("^") and not lines)
    ends = bare.endswith(r"\z") or (bare.endswith("$") and not bare.endswith(r"\$") and not lines)
    return begins and ends and not _has_choice(bare)


def _has_choice(pattern: str) -> bool:
    """Whether there is a ``|`` outside of all brackets."""
    depth, in_class = 0, False
    for part in re.findall(r"\\.|.", pattern, re.DOTALL):
        if in_class:
            in_class = part != "]"
        elif part == "[":
            in_class = True
        elif part == "|" and depth == 0:
            return True
        depth += (part == "(") - (part == ")") if not in_class else 0
    return False


def _others() -> dict[int, str]:
    """Each letter and digit becomes the next one."""
    groups = ("0123456789", "abcdefghijklmnopqrstuvwxyz", "ABCDEFGHIJKLMNOPQRSTUVWXYZ")
    return {ord(one): other for group in groups for one, other in zip(group, group[1:] + group[:1], strict=True)}


def _said(bench: Bench, step: int) -> str:
    return submitted_message(bench.reference.evidence[step].messages)


def _score(bench: Bench, judge: Judge, step: int, text: str) -> float:
    nothing = nothing_of(bench.reference.evidence[step].submission, bench.task_class.steps[step].submission_paths)
    return bench.judge(judge, step, nothing, messages=_messages(bench.task_class.steps[step].instructions, text)).score


def _messages(instructions: str, text: str) -> tuple[dict[str, Any], ...]:
    call = {"name": "submit", "arguments": json.dumps({"message": text})}
    said = {"role": "assistant", "content": "", "tool_calls": [{"id": "call_1", "type": "function", "function": call}]}
    return ({"role": "user", "content": instructions}, said)
