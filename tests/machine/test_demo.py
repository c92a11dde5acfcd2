"""The README's first command, as it stands: an honest episode is paid, a cheat is not and is named."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent


@pytest.mark.machine
@pytest.mark.timeout(1500)
def test_make_demo_pays_the_honest_script_and_names_the_cheat() -> None:
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "MFLAGS"))}
    done = subprocess.run(
        ["make", "demo"], cwd=ROOT, env=environment, capture_output=True, text=True, timeout=1400, stdin=subprocess.DEVNULL
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    assert "symbolic link" in done.stdout + done.stderr
