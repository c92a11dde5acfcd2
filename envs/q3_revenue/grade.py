"""Scores q3-revenue: one whole number of cents in a small plain file, compared and never evaluated.

Called as ``grade.py SUBMISSION_DIR ROOT_DATA_DIR RESULT_PATH`` in a machine that the student never saw.
"""

import json
import os
import re
import sys

from karotte_grading import SubmissionUnusable, read_submitted

ANSWER = "workdir/data/answer.txt"
MAX_BYTES = 64  # a whole number of cents and a line end; 30 million digits are no answer
NUMBER = re.compile(rb"[ \t\r\n]*([+-]?[0-9]{1,18})[ \t\r\n]*")


def score(submission_dir: str, root_data_dir: str) -> tuple[float, str]:
    """The score and why."""
    with open(os.path.join(root_data_dir, "q3_revenue.txt"), "rb") as stream:
        expected = int(stream.read())
    try:
        answer = read_submitted(os.path.join(submission_dir, ANSWER), MAX_BYTES, "answer")
    except SubmissionUnusable as unusable:
        return 0.0, str(unusable)
    found = NUMBER.fullmatch(answer)
    if found is None:
        return 0.0, "the answer is not a whole number of cents"
    return (1.0, "right") if int(found[1]) == expected else (0.0, "wrong number")


def main() -> None:
    """Write the result."""
    submission_dir, root_data_dir, result_path = sys.argv[1:]
    value, reason = score(submission_dir, root_data_dir)
    with open(result_path, "w", encoding="utf-8") as stream:
        json.dump({"score": value, "metadata": {"reason": reason}}, stream)


if __name__ == "__main__":
    main()
