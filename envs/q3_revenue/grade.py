"""Scores q3-revenue: one whole number of cents in a small plain file, compared and never evaluated.

Called as ``grade.py SUBMISSION_DIR ROOT_DATA_DIR RESULT_PATH`` in a machine that the student never saw.
"""

import json
import os
import re
import stat
import sys

ANSWER = "workdir/data/answer.txt"
MAX_BYTES = 64  # a whole number of cents and a line end; 30 million digits are no answer
NUMBER = re.compile(rb"[ \t\r\n]*([+-]?[0-9]{1,18})[ \t\r\n]*")


def read_answer(path: str) -> bytes:
    """The file's bytes; ValueError with a sentence when it is no small regular file."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except FileNotFoundError:
        raise ValueError("no answer was handed in") from None
    except OSError as error:
        raise ValueError(f"the answer can't be opened: {error.strerror}") from None
    try:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise ValueError("the answer is no regular file")
        data = os.read(handle, MAX_BYTES + 1)
    finally:
        os.close(handle)
    if len(data) > MAX_BYTES:
        raise ValueError(f"the answer has more than {MAX_BYTES} bytes")
    return data


def score(submission_dir: str, root_data_dir: str) -> tuple[float, str]:
    """The score and why."""
    with open(os.path.join(root_data_dir, "q3_revenue.txt"), "rb") as stream:
        expected = int(stream.read())
    try:
        answer = read_answer(os.path.join(submission_dir, ANSWER))
    except ValueError as error:
        return 0.0, str(error)
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
