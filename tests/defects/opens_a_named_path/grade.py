"""Lets the answer say in which file it is."""

import json
import os
import sys

submission_dir, root_data_dir, result_path = sys.argv[1:]
with open(os.path.join(root_data_dir, "expected.txt")) as stream:
    expected = stream.read().strip()
try:
    with open(os.path.join(submission_dir, "workdir/answer.txt")) as stream:
        name = stream.read(200).strip()
    with open(os.path.join(submission_dir, "workdir", name)) as stream:
        right = stream.read(64).strip() == expected
except (OSError, ValueError):
    right = False
with open(result_path, "w") as stream:
    json.dump({"score": float(right)}, stream)
