"""From an empty folder to an episode with reward 1.0, by doing what docs/first-task.md says, block by block.

The package is installed in a virtual environment of the test's own, with the project beside it, so entry points are real.
"""

from __future__ import annotations

import os
import re
import site
import subprocess
import venv
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
PAGE = ROOT / "docs" / "first-task.md"
BLOCK = re.compile(r"(?:^`(?P<file>[^`\n]+)`:\n\n)?^```(?P<language>\w*)\n(?P<code>.*?)^```$", re.MULTILINE | re.DOTALL)
END = "END_OF_BLOCK"
USE = """
import gymnasium as gym, karotte_gym
from karotte_gym.registration import registered_tasks, registration_problems
assert registered_tasks()["busiest-page"] == "my_tasks.busiest_page", registered_tasks()
assert not registration_problems()
with gym.make("karotte/my-tasks-example") as env:
    env.reset(seed=3)
    env.step({"name": "bash", "arguments": {"command": "echo 178187 > answer.txt"}})
    print(env.step({"name": "submit", "arguments": {}})[1])
"""


def _script_of(page: str) -> str:
    """The page as one shell script: files are written, ```sh and ```python run; a block that is neither fails here."""
    parts = ["set -euxo pipefail"]
    for block in BLOCK.finditer(page):
        if block["file"]:
            parts.append(f"cat > {block['file']} <<'{END}'\n{block['code']}{END}")
        elif block["language"] == "python":
            parts.append(f"python - <<'{END}'\n{block['code']}{END}")
        else:
            assert block["language"] == "sh", f"neither run nor written to a file:\n{block['code']}"
            parts.append(block["code"])
    assert len(parts) - 1 == page.count("\n```") // 2, "a block of the page is not understood"
    return "\n".join(parts)


@pytest.fixture
def installed(tmp_path: Path) -> dict[str, str]:
    """The environment of a shell in which this package is installed and others can be: a venv on top of this one."""
    home = tmp_path / "venv"
    venv.create(home, with_pip=False)
    (packages,) = (home / "lib").glob("python*/site-packages")
    mine = [path for path in site.getsitepackages() if Path(path).is_dir()]
    (packages / "outer.pth").write_text("".join(f"import site; site.addsitedir({path!r})\n" for path in mine))
    command = home / "bin" / "karotte-gym"
    command.write_text(f"#!{home}/bin/python\nfrom karotte_gym.cli.main import main\nmain()\n")
    command.chmod(0o755)
    return {
        **os.environ,
        "PATH": f"{home / 'bin'}{os.pathsep}{os.environ['PATH']}",
        "PS4": "+ $SECONDS s: ",  # a failure shows what took how long
        "PIP_NO_INDEX": "1",
        "PIP_NO_BUILD_ISOLATION": "0",  # pip reads it the other way round: 0 is without isolation, so without an index
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
        "GIT_AUTHOR_NAME": "an author",
        "GIT_AUTHOR_EMAIL": "author@localhost",
        "GIT_COMMITTER_NAME": "an author",
        "GIT_COMMITTER_EMAIL": "author@localhost",
    }


@pytest.mark.machine
@pytest.mark.timeout(1800)
def test_a_newcomer_gets_from_an_empty_folder_to_an_episode_with_reward_1(installed: dict[str, str], tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    script = _script_of(PAGE.read_text())
    done = subprocess.run(["bash", "-c", script], cwd=empty, env=installed, capture_output=True, text=True, timeout=1500)
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    made = subprocess.run(["python", "-c", USE], cwd="/", env=installed, capture_output=True, text=True, timeout=200)
    assert made.stdout.strip() == "1.0", f"{made.stdout}\n{made.stderr}"


@pytest.mark.machine
@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_a_task_is_sound_in_full_as_it_is_made(installed: dict[str, str], tmp_path: Path) -> None:
    commands = "karotte-gym create-env my-tasks && karotte-gym validate my-tasks-example --project my-tasks"
    done = subprocess.run(["bash", "-c", commands], cwd=tmp_path, env=installed, capture_output=True, text=True, timeout=3500)
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"


def test_a_block_that_would_not_run_is_noticed() -> None:
    page = PAGE.read_text()
    with pytest.raises(AssertionError, match="neither run nor written"):
        _script_of(page + "\n```console\n$ true\n```\n")
