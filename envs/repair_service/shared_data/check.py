"""A few requests whose answers are known: python3 /workdir/shared/check.py. The service must be running."""

import json
import urllib.error
import urllib.request


def ask(path):
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:8080{path}", timeout=5) as answer:
            return answer.status, json.loads(answer.read(65536))
    except urllib.error.HTTPError as error:
        return error.code, None


for path in ("/health", "/quote?item=nothing&quantity=1", "/items?category=nothing"):
    try:
        print(path, *ask(path))
    except (OSError, ValueError) as error:
        print(path, "fails:", error)
