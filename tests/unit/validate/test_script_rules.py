"""A scoring script is read for what it opens, how much it reads and what it runs; what a sound one does is no flaw."""

from __future__ import annotations

import pytest

from karotte_gym.validate.script_rules import ORIGINAL_PATH, RUNS, UNBOUNDED, UNBOUNDED_LINE, flaws_of

HEAD = "import json, os, pickle, subprocess, sys, yaml\nfrom pathlib import Path\nsub, root, result = sys.argv[1:]\n"


def kinds(code: str) -> list[str]:
    return [flaw.kind for flaw in flaws_of(HEAD + code)]


@pytest.mark.parametrize(
    "code",
    [
        'open("/workdir/answer.txt").read(9)',
        'open(b"/workdir/answer.txt").read(9)',
        'os.path.exists("/workdir/answer.txt")',
        'open(os.path.join(sub, "/workdir/answer.txt")).read(9)',  # join forgets what stands before an absolute path
        '(Path(sub) / "/workdir/answer.txt").open()',  # and so does a division
        'PLACE = "/workdir"\nopen(f"{PLACE}/answer.txt").read(9)',
        'def f(path):\n    return open(path).read(9)\nf("/workdir/answer.txt")',
        'for path in ("/workdir/a", "/workdir/b"):\n    open(path).read(9)',
        'subprocess.run(["cat", "/workdir/answer.txt"])',
        'from karotte_grading import read_submitted\nread_submitted("/workdir/answer.txt", 64)',
    ],
)
def test_the_path_at_which_the_student_wrote_is_found(code: str) -> None:
    assert ORIGINAL_PATH in kinds(code)


@pytest.mark.parametrize(
    "code",
    [
        'open(f"{sub}/workdir/answer.txt").read(9)',
        'open(sub + "/workdir/answer.txt").read(9)',
        'open(os.path.join(sub, "workdir/answer.txt")).read(9)',
        'ANSWER = "/workdir/answer.txt"\nopen(sub + ANSWER).read(9)',
        'ANSWER = "/workdir/answer.txt"\nopen(os.path.join(sub, ANSWER.lstrip("/"))).read(9)',
        '(Path(sub) / Path("/workdir/answer.txt").relative_to("/")).open().read(9)',
        'print("hand in /workdir/answer.txt")',
        'json.dump({"score": 0.0, "metadata": {"reason": "/workdir/answer.txt is missing"}}, open(result, "w"))',
        'with open(f"{root}/expected.txt") as stream:\n    expected = stream.read()\n'
        'with open(f"{sub}/workdir/x") as stream:\n    answer = stream.read(64)',
        "data = json.load(open(root))",
        'def load(path):\n    with open(path) as stream:\n        return json.load(stream)\nload(f"{root}/facts.json")',
        'path = f"{sub}/workdir/x"\nif os.path.getsize(path) < 4096:\n    text = open(path).read()',
        'import re\nre.compile(open(f"{sub}/workdir/x").read(64))',
        "from karotte_grading import run_as_student\n"
        'done = run_as_student(["/usr/bin/python3", f"{sub}/workdir/x.py"])\nvalue = json.loads(done.stdout)',
        'from karotte_grading import read_submitted\njson.loads(read_submitted(f"{sub}/workdir/x", max_bytes=64))',
        'yaml.load(open(f"{sub}/workdir/x").read(64), Loader=yaml.SafeLoader)',
        'exec(open(f"{root}/helpers.py").read())',  # the author's own
    ],
)
def test_what_a_sound_script_does_is_no_flaw(code: str) -> None:
    assert kinds(code) == []


@pytest.mark.parametrize(
    "code",
    [
        'open(f"{sub}/workdir/x").read()',
        'open(f"{sub}/workdir/x").read(-1)',
        'Path(sub, "workdir/x").read_text()',
        'json.load(open(f"{sub}/workdir/x"))',
        'with open(f"{sub}/workdir/x") as f:\n    f.readlines()',
        'def read(path):\n    with open(path) as f:\n        return f.read()\nread(f"{sub}/workdir/x")',
        "def main(a, b, c):\n    return open(a).read()\nmain(*sys.argv[1:])",
        "open(sys.argv[1]).read()",
        'for name in os.listdir(sub):\n    open(os.path.join(sub, name), "rb").read()',
    ],
)
def test_a_read_without_a_bound_is_found(code: str) -> None:
    assert UNBOUNDED in kinds(code)


def test_lines_of_any_length_are_found() -> None:
    assert kinds('with open(f"{sub}/workdir/x") as f:\n    for line in f:\n        pass') == [UNBOUNDED_LINE]
    assert kinds('with open(f"{root}/x") as f:\n    for line in f:\n        pass') == []


@pytest.mark.parametrize(
    "code",
    [
        'eval(open(f"{sub}/workdir/x").read(64))',
        'text = open(f"{sub}/workdir/x").read(64)\nexec(compile(text, "x", "exec"))',
        'from karotte_grading import read_submitted\neval(read_submitted(f"{sub}/workdir/x", 64))',
        'pickle.load(open(f"{sub}/workdir/x", "rb"))',
        'yaml.load(open(f"{sub}/workdir/x").read(64))',
        'import numpy as np\nnp.load(f"{sub}/workdir/x", allow_pickle=True)',
        'subprocess.run(["python3", f"{sub}/workdir/x.py"])',
        'os.system("python3 " + sub)',
        "sys.path.insert(0, sub)",
        "import runpy\nrunpy.run_path(sub)",
        'from importlib import util\nutil.spec_from_file_location("x", f"{sub}/workdir/x.py")',
    ],
)
def test_every_way_to_run_what_was_handed_in_is_found(code: str) -> None:
    assert RUNS in kinds(code)


def test_a_flaw_names_its_line_and_its_code() -> None:
    (flaw,) = flaws_of(HEAD + "\n\neval(open(sub).read(1))")
    assert (flaw.line, flaw.what) == (6, "eval(open(sub).read(1))")
