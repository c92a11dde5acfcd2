"""Compares one whole number."""

import json
import os
import re
import sys

submission_dir, root_data_dir, result_path = sys.argv[1:]
with open(os.path.join(root_data_dir, "count.txt"), "rb") as stream:
    expected = stream.read().strip()
try:
    with open(os.path.join(submission_dir, "workdir/last.txt"), "rb") as stream:
        answer = stream.read(64)
except OSError as error:
    answer = str(error).encode()
right = re.fullmatch(rb"([0-9]{1,20})\n?", answer)
with open(result_path, "w", encoding="utf-8") as stream:
    json.dump({"score": float(right is not None and right[1] == expected)}, stream)
