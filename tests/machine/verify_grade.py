"""Scores by what is in the folder that was handed in: names and executable bits."""

import json
import os
import sys

submission_dir, _, result_path = sys.argv[1:]
found = []
for folder, _, names in os.walk(os.path.join(submission_dir, "workdir", "out")):
    found += [(name, os.access(os.path.join(folder, name), os.X_OK)) for name in names]
with open(result_path, "w", encoding="utf-8") as stream:
    json.dump({"score": len(found) / 4 + 0.1 * sum(executable for _, executable in found)}, stream)
