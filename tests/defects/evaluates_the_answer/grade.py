"""Compares the value of an expression."""

import json
import sys
from pathlib import Path

submission_dir, root_data_dir, result_path = sys.argv[1:]
expected = int(Path(root_data_dir, "expected.txt").read_text())


def value(directory: str) -> int:
    """What the answer says."""
    with open(directory + "/workdir/answer.txt") as stream:
        text = stream.read(64)
    return int(eval(text))


try:
    right = value(submission_dir) == expected
except Exception:
    right = False
with open(result_path, "w") as stream:
    json.dump({"score": float(right)}, stream)
