"""Every code block of the README and of docs/ runs: ```python and ```sh; ```text and tables are for reading."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
BLOCK = re.compile(r"^```(python|sh)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
# Run by the set-up itself: the demo in tests/machine/test_demo.py, the tests by whoever runs this.
SET_UP = {"make demo", "make test", "make bench", "make soak"}
# Blocks that build on each other, in a folder and a virtual environment of their own: tests/machine/test_create_env.py.
ONE_STORY = {"first-task.md"}


def _blocks() -> list[tuple[str, str, str]]:
    found = []
    pages = [page for page in sorted((ROOT / "docs").glob("*.md")) if page.name not in ONE_STORY]
    for page in [ROOT / "README.md", *pages]:
        for number, match in enumerate(BLOCK.finditer(page.read_text()), 1):
            found.append((f"{page.name}-{number}", match[1], match[2]))
    return found


@pytest.mark.machine
@pytest.mark.parametrize(("name", "language", "code"), _blocks(), ids=[name for name, _, _ in _blocks()])
def test_a_code_block_of_the_documentation_runs(name: str, language: str, code: str) -> None:
    commands = [line.split("#")[0].strip() for line in code.splitlines()]
    if language == "sh" and all(line in SET_UP for line in commands if line):
        assert all(f"{line.split()[1]}:" in (ROOT / "Makefile").read_text() for line in commands if line)
        return
    argv = [sys.executable, "-c", code] if language == "python" else ["bash", "-euo", "pipefail", "-c", code]
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(argv, cwd=ROOT, env={**os.environ, "PATH": path}, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, f"{name}:\n{done.stdout}\n{done.stderr}"
