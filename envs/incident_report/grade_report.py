"""Scores the facts of the second step of incident-report: a short report with one cause, one service, one time and one number.

Called as ``grade_report.py SUBMISSION_DIR GRADING_DATA_DIR RESULT_PATH`` in a machine that the student never saw. What a
report claims has to be said in its place, and nothing else in that form anywhere: one that names every cause and every
service has named none. Its quoted line must be one of those that show the cause; it is compared by digest, so that the
logs need not be here. What the instructions leave open is the author's: a title, sections of its own, how long its
timeline is, and how a word is set off.
"""

import hashlib
import json
import os
import re
import sys
from typing import Any

from karotte_grading import SubmissionUnusable, read_submitted

ANSWER, REPORT = "workdir/data/answer.json", "workdir/data/report.md"
MAX_ANSWER_BYTES, MAX_REPORT_CHARS = 1024, 4000
HEADINGS = ("Summary", "Timeline", "Cause", "Impact")
CALLERS = {  # who may be named beside the service at fault: those that it made fail
    "search-index": ("catalogue-api",),
    "stock-store": ("checkout-api",),
    "payment-api": ("checkout-api",),
    "ledger-store": ("payment-api", "checkout-api"),
    "session-store": ("account-api",),
}
MAX_LOG_LINES, MIN_WORDS = 3, 8
HEADING = re.compile(r"^##[ \t]+(\S.*?)[ \t]*$", re.MULTILINE)
TITLE = re.compile(r"# [^\n]+")
SET_OFF = re.compile(r"^[ \t]*[-+*][ \t]+|[*`]+", re.MULTILINE)  # list marks, emphasis, code: they change no claim
CAUSE, SERVICE = (re.compile(rf"^{name}:[ \t]*([\w-]+)[ \t.]*$", re.MULTILINE) for name in ("Cause", "Service"))
FIRST = re.compile(r"^First failure:[ \t]*(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ)[ \t.]*$", re.MULTILINE)
FAILED = re.compile(r"(?<![\w.,-])(\d{1,6})\s+failed\s+requests\b")
LOG_LINE = re.compile(r"\b(?:INFO|ERROR)[ \t]+(?:r-[0-9a-f]+|job-\d+|-)[ \t]")  # its level, its request, and some text
TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")
COUNTS = {"cause": 0.5, "first_failure": 0.25, "failed": 0.25}


class Wrong(Exception):
    """Why the report scores 0."""


def read_text(path: str, what: str, max_chars: int) -> str:
    """A small regular file as text, without the mark that some editors put before it."""
    try:
        text = read_submitted(path, 4 * max_chars, what).decode("utf-8-sig").replace("\r\n", "\n")
    except SubmissionUnusable as unusable:
        raise Wrong(str(unusable)) from None
    except UnicodeDecodeError:
        raise Wrong(f"the {what} is no UTF-8 text") from None
    if len(text) > max_chars:
        raise Wrong(f"the {what} has more than {max_chars} characters")
    return text


def sections_of(report: str) -> dict[str, str]:
    """The text below each of the four headings, each with sentences of the author's own; other sections are read over."""
    above, *parts = HEADING.split(report)
    if (above.strip() and not TITLE.fullmatch(above.strip())) or parts[:1] != [HEADINGS[0]]:
        raise Wrong(f"nothing but a title line may stand above {HEADINGS[0]}")
    found = [(name, text) for name, text in zip(parts[::2], parts[1::2], strict=True) if name in HEADINGS]
    if tuple(name for name, _ in found) != HEADINGS:
        raise Wrong(f"the report's headings must be {', '.join(HEADINGS)}, each once and in this order")
    for name, text in found:
        own = "\n".join(line for line in plain(text).split("\n") if not line.startswith(">") and not LOG_LINE.search(line))
        if len(re.findall(r"[A-Za-z]{2,}", TIME.sub("", FIRST.sub("", CAUSE.sub("", SERVICE.sub("", own)))))) < MIN_WORDS:
            raise Wrong(f"there is hardly a sentence below {name}")
    return dict(found)


def plain(text: str) -> str:
    """Without list marks, emphasis and code marks."""
    return SET_OFF.sub("", text)


def only(pattern: re.Pattern[str], place: str, report: str, what: str) -> str:
    """What the pattern finds in its place; Wrong unless the whole report has it exactly once."""
    found = pattern.findall(plain(report))
    if len(found) != 1 or pattern.findall(plain(place)) != found:
        raise Wrong(f"{what} must be said once, and in its place")
    return str(found[0])


def number_of_failed(place: str, report: str) -> int:
    """The number said in its place; Wrong when the report says another one anywhere. The same one may come again."""
    here, anywhere = ({int(number) for number in FAILED.findall(plain(text))} for text in (place, report))
    if not here or len(anywhere) != 1:
        raise Wrong("one number of failed requests must be said, below Impact, and no other anywhere")
    return anywhere.pop()


def check_cause(report: str, sections: dict[str, str], facts: dict[str, Any]) -> None:
    """One cause, one service, the right ones, and nobody else suspected."""
    cause = only(CAUSE, sections["Cause"], report, "the cause")
    service = only(SERVICE, sections["Cause"], report, "the service")
    if (cause, service) != (facts["cause"], facts["service"]):
        raise Wrong("the report names another cause or another service")
    words = set(re.findall(r"[a-z]+(?:-[a-z]+)*", report.lower()))
    if words & (set(facts["causes"]) - {cause}):
        raise Wrong("the report names other causes as well")
    if words & (set(facts["services"]) - {service, "gateway", *CALLERS[service]}):
        raise Wrong("the report names services that had no part in it")


def check_quotes(report: str, sections: dict[str, str], facts: dict[str, Any]) -> None:
    """Few lines of logs, marked as quotes or not, and one of them below Cause that shows it."""
    if len(LOG_LINE.findall(report)) > MAX_LOG_LINES:
        raise Wrong(f"the report has more than {MAX_LOG_LINES} lines of logs")
    below = re.findall(r"^> (.*)$", sections["Cause"], re.MULTILINE)
    if not any(hashlib.sha256(line.strip().encode()).hexdigest() in facts["evidence"] for line in below):
        raise Wrong("no line is quoted below Cause that shows it")


def check_answer(submission_dir: str, facts: dict[str, Any]) -> None:
    """The report stands by the answer of the first step, which may not have been changed meanwhile."""
    try:
        answer = json.loads(read_text(os.path.join(submission_dir, ANSWER), "answer", MAX_ANSWER_BYTES))
    except (ValueError, RecursionError):
        raise Wrong("the answer is no JSON") from None
    if not isinstance(answer, dict) or (answer.get("cause"), answer.get("service")) != (facts["cause"], facts["service"]):
        raise Wrong("the answer names another cause or another service")


def found_facts(submission_dir: str, facts: dict[str, Any]) -> dict[str, bool]:
    """Which of the facts that count the report has; Wrong when it is no report of this incident."""
    check_answer(submission_dir, facts)
    report = read_text(os.path.join(submission_dir, REPORT), "report", MAX_REPORT_CHARS)
    sections = sections_of(report)
    check_cause(report, sections, facts)
    check_quotes(report, sections, facts)
    first = only(FIRST, sections["Timeline"], report, "the first failure")
    failed = number_of_failed(sections["Impact"], report)
    return {
        "cause": True,
        "first_failure": first == facts["first_failure"],
        "failed": failed == facts["failed"],
    }


def main() -> None:
    """Write the result."""
    submission_dir, grading_data_dir, result_path = sys.argv[1:]
    with open(os.path.join(grading_data_dir, "incident.json"), encoding="utf-8") as stream:
        facts = json.load(stream)
    try:
        found = found_facts(submission_dir, facts)
        value, reason = sum(COUNTS[name] for name, right in found.items() if right), "a report of this incident"
    except Wrong as wrong:
        found, value, reason = {}, 0.0, str(wrong)
    with open(result_path, "w", encoding="utf-8") as stream:
        json.dump({"score": value, "metadata": {"reason": reason, "facts": found}}, stream)


if __name__ == "__main__":
    main()
