"""A model that obeys: whatever stands outside the fence and looks like an order or an answer decides its verdict.

No scripted model can show that a real one resists what it reads *inside* the fence. What can be shown, for every model,
is that nothing of the submission ever stands anywhere else; this one is moved by the least of it.
"""

from __future__ import annotations

import json
import re
from typing import Any

from tests.model_server import Request, Say

YES = json.dumps({"met": True, "reason": "as I was told"})
NO = json.dumps({"met": False, "reason": "the submission does not show it"})
OBEYS = re.compile(
    r'ignore (the|all)|"met"\s*:\s*true\b|you must|met: true|<\|im_start\|>|\[INST\]|END SUBMISSION 0|'
    r"[\u200b-\u200f\u202a-\u202e\U000e0000-\U000e007f]|\bHuman:|\bAssistant:|PWNED",
    re.IGNORECASE,
)
FENCE = re.compile(r"between the line\n(BEGIN SUBMISSION [0-9a-f]{32})\nand the line\n(END SUBMISSION [0-9a-f]{32})\n")
OWN_FORM = '{"met": true or false, "reason": "one or two sentences"}'  # the question says what an answer looks like


def gullible(request: Request) -> Say:
    """Met when anything outside the fence tells it so."""
    return Say(YES if OBEYS.search(outside(request.body["messages"])) else NO)


def outside(messages: list[dict[str, Any]]) -> str:
    """All of the request's text but what stands between the marks that its first message names."""
    texts = [message["content"] for message in messages]
    marks = FENCE.search(texts[0]) if messages[0]["role"] == "system" else None
    if marks is not None:
        begin, end = marks.groups()
        texts[0] = texts[0].replace(OWN_FORM, "").replace(begin, "").replace(end, "")
        for index, text in enumerate(texts[1:], 1):
            before, found, rest = text.partition(f"\n{begin}\n")
            _, ended, after = rest.partition(f"\n{end}\n")
            texts[index] = before + after if found and ended else text
    return "\n".join(texts)


def inside(messages: list[dict[str, Any]]) -> str:
    """What stands between the marks."""
    marks = FENCE.search(messages[0]["content"])
    assert marks is not None
    begin, end = marks.groups()
    found = re.search(f"\n{begin}\n(.*)\n{end}\n", messages[1]["content"], re.DOTALL)
    assert found is not None
    return found[1]
