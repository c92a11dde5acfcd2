"""Compares with a tolerance, in the order in which NaN passes."""

import json
import sys
from pathlib import Path

submission_dir, root_data_dir, result_path = sys.argv[1:]
expected = float(Path(root_data_dir, "expected.txt").read_text())
score = 1.0
try:
    with open(f"{submission_dir}/workdir/answer.txt", "rb") as stream:
        if abs(float(stream.read(64)) - expected) > 0.5:
            score = 0.0
except (OSError, ValueError):
    score = 0.0
with open(result_path, "w") as stream:
    json.dump({"score": score}, stream)
