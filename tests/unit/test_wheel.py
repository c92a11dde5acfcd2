"""A wheel carries all that an editable install finds in the checkout, and its parts import from there."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
DATA = (
    "karotte_gym/py.typed",
    "karotte_gym/sandbox/Containerfile",
    "karotte_gym/guest/boot/init",
    "karotte_gym/guest/boot/harden.sh",
    "karotte_gym/redteam/generic.json",
    "karotte_gym/templates/project/v1/copier.yml",
    "karotte_gym/templates/project/v1/template/.copier-answers.yml.jinja",
    "karotte_gym/templates/project/v1/template/.github/workflows/tests.yml.jinja",
    "karotte_gym/templates/task/v1/template/__init__.py.jinja",
    "karotte_gym/templates/task/v1/template/attacks/link_to_the_key.json",
    "karotte_gym/models/data/models.json",
    "karotte_gym/report/assets/main.js",
    "karotte_gym/envs/q3_revenue/root_data/q3_revenue.txt",
    "karotte_gym/envs/q3_revenue/student_data/orders.csv",
    "karotte_gym/envs/q3_revenue/attacks/link_to_the_key.json",
)
USE = """
import sys; sys.path.insert(0, sys.argv[1])
import gymnasium, karotte_gym, karotte_gym.wrappers
from karotte_gym.registration import load_task
from karotte_gym.redteam import generic_pack, own_attacks
task = load_task("q3-revenue")
assert str(task.folder()).startswith(sys.argv[1]), task.folder()
assert gymnasium.spec("karotte/q3-revenue").additional_wrappers
assert generic_pack() and own_attacks(task)
print("ok")
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built from a copy of what git would give, so that nothing of a former build gets in."""
    source, target = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("wheel")
    listed = subprocess.run(["git", "ls-files", "-z", "-co", "--exclude-standard"], cwd=ROOT, capture_output=True, check=True)
    for name in filter(None, listed.stdout.decode().split("\0")):
        if (ROOT / name).is_file():
            (source / name).parent.mkdir(parents=True, exist_ok=True)
            (source / name).write_bytes((ROOT / name).read_bytes())
    pip = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation"]
    subprocess.run([*pip, "-w", str(target), str(source)], check=True, capture_output=True, timeout=240)
    return next(target.glob("*.whl"))


def test_the_wheel_has_every_data_file(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    assert [path for path in DATA if path not in names] == []
    assert not [name for name in names if name.startswith(("tests/", "benchmarks/"))]


def test_the_wheel_registers_and_finds_its_task(wheel: Path, tmp_path: Path) -> None:
    zipfile.ZipFile(wheel).extractall(tmp_path)
    use = [sys.executable, "-P", "-c", USE, str(tmp_path)]
    done = subprocess.run(use, capture_output=True, text=True, cwd="/", timeout=120)
    assert done.stdout.strip() == "ok", done.stderr
