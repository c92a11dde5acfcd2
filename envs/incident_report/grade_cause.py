"""Scores the first step of incident-report: three facts in a small JSON file.

Called as ``grade_cause.py SUBMISSION_DIR GRADING_DATA_DIR RESULT_PATH`` in a machine that the student never saw. A wrong
cause or service ends the task: a report on it would be worth nothing.
"""

import json
import os
import sys
from typing import Any

from karotte_grading import SubmissionUnusable, read_submitted

ANSWER = "workdir/data/answer.json"
MAX_BYTES = 1024
FACTS = ("cause", "service", "first_failure")
RIGHT_BUT_THE_TIME = 0.5


def parse(data: bytes) -> dict[str, str]:
    """The three facts, all of them text."""
    try:
        answer = json.loads(data.decode("utf-8-sig"), object_pairs_hook=_unique)
    except (ValueError, RecursionError):
        raise ValueError("the answer is no JSON object with each key once") from None
    if not isinstance(answer, dict) or set(answer) != set(FACTS):
        raise ValueError(f"the answer must have the keys {', '.join(FACTS)} and no others")
    if not all(isinstance(value, str) for value in answer.values()):
        raise ValueError("the answer's values must be text")
    return answer


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len({key for key, _ in pairs}) != len(pairs):
        raise ValueError("a key comes twice")
    return dict(pairs)


def score(submission_dir: str, facts: dict[str, Any]) -> tuple[float, str]:
    """The score and why; the reason names no right value."""
    try:
        answer = parse(read_submitted(os.path.join(submission_dir, ANSWER), MAX_BYTES, "answer"))
    except (SubmissionUnusable, ValueError) as error:
        return 0.0, str(error)
    if (answer["cause"], answer["service"]) != (facts["cause"], facts["service"]):
        return 0.0, "another cause or another service"
    return (1.0, "right") if answer["first_failure"] == facts["first_failure"] else (RIGHT_BUT_THE_TIME, "another time")


def main() -> None:
    """Write the result."""
    submission_dir, grading_data_dir, result_path = sys.argv[1:]
    with open(os.path.join(grading_data_dir, "incident.json"), encoding="utf-8") as stream:
        facts = json.load(stream)
    value, reason = score(submission_dir, facts)
    with open(result_path, "w", encoding="utf-8") as stream:
        json.dump({"score": value, "metadata": {"reason": reason}, "stop_task": value == 0.0}, stream)


if __name__ == "__main__":
    main()
