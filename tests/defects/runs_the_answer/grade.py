"""Runs what was handed in, beside the answer."""

import json
import sys
from pathlib import Path
from subprocess import PIPE, TimeoutExpired, run

submission, root_data, result = map(Path, sys.argv[1:4])
expected = (root_data / "expected.txt").read_bytes().strip()
try:
    said = run([sys.executable, submission / "workdir/answer.txt"], stdout=PIPE, timeout=10, cwd=root_data).stdout
except (OSError, TimeoutExpired):
    said = b""
result.write_text(json.dumps({"score": float(said.strip() == expected)}))
