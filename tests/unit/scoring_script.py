"""Runs a scoring script on this host, with what it may import in a grader machine."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from karotte_gym.guest import grading

__all__ = ["GRADING", "run_script"]

GRADING = Path(grading.__file__).parent
RUN = "import runpy, sys; sys.path.append(sys.argv.pop(1)); del sys.argv[0]; runpy.run_path(sys.argv[0], run_name='__main__')"


def run_script(script: Path, submission_dir: Path, root_data_dir: Path, result: Path, *, timeout_s: float = 20.0) -> None:
    """CalledProcessError when it fails, TimeoutExpired when it hangs."""
    arguments = [str(path) for path in (GRADING, script, submission_dir, root_data_dir, result)]
    subprocess.run([sys.executable, "-I", "-c", RUN, *arguments], check=True, timeout=timeout_s)
