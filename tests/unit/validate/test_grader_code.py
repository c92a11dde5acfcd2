"""What the checks say of grading code: of scripts, of functions on the host, and of what they can't follow."""

from __future__ import annotations

from pathlib import Path

import pytest

from karotte_gym.validate import Verdict, validate
from karotte_gym.validate.script_flaw import NAMED_PATH, ORIGINAL_PATH, PATTERN, RUNS, UNBOUNDED
from karotte_gym.validate.script_rules import read
from tests.defective import made

CHECKED = ("original-path", "bounded-reads", "no-execution")
MODULES = "import json, os, re\nfrom pathlib import Path\n\n"
TEXT = "files.read_text('/workdir/answer.txt')"


def kinds(code: str) -> set[str]:
    return {flaw.kind for flaw in read(MODULES + code, "judge").flaws}


@pytest.mark.parametrize(
    ("code", "found"),
    [
        (f"def judge(files):\n    return eval({TEXT})", {RUNS}),
        (f"def judge(files, context):\n    text = {TEXT}\n    return float(eval(text) == 1)", {RUNS}),
        (f"def value(text):\n    return eval(text)\ndef judge(files):\n    return value({TEXT})", {RUNS}),
        (
            "def value(view):\n    return eval(view.read_bytes('/workdir/x'))\ndef judge(files):\n    return value(files)",
            {RUNS},
        ),
        ("class Checks:\n    @staticmethod\n    def judge(files):\n        return eval(files.read_text('/workdir/x'))", {RUNS}),
        ("def judge(files, context):\n    return eval(context.messages[-1]['content'])", {RUNS}),
        (f"import pickle\ndef judge(files):\n    return pickle.loads({TEXT})", {RUNS}),
        (f"def judge(files):\n    return bool(re.search({TEXT}, 'x'))", {PATTERN}),
        (f"def judge(files, context):\n    return open(context.root_data / {TEXT}).read(9) == 'x'", {NAMED_PATH}),
        ("def judge(files):\n    return open('/workdir/answer.txt').read()", {ORIGINAL_PATH, UNBOUNDED}),
    ],
)
def test_a_judges_function_is_read_like_a_script(code: str, found: set[str]) -> None:
    assert kinds(code) == found


@pytest.mark.parametrize(
    "code",
    [
        f"def judge(files):\n    return float({TEXT} == '42')",
        f"def judge(files, context):\n    return float({TEXT} == (context.root_data / 'expected.txt').read_text())",
        "def judge(files, context):\n    return float(files.read_bytes('/workdir/x') == context.grading_data['x'])",
        "def judge(files):\n    return float(all(files.read_text(path) for path in files.list()))",
        f"def judge(files):\n    return float(files.exists(json.loads({TEXT})['file']))",
        f"def judge(files):\n    return len(files.read_bytes(json.loads({TEXT})['file'])) / 10",
        "def judge(files, context):\n    return float('42' in context.messages[-1]['content'])",
    ],
)
def test_what_a_sound_function_does_is_no_flaw(code: str) -> None:
    reading = read(MODULES + code, "judge")
    assert (reading.flaws, reading.sees_submission) == ((), True)


def test_only_the_function_and_what_it_calls_is_read() -> None:
    other = "def hook(sandbox):\n    eval(open('/workdir/x').read())\n\n"
    assert kinds(other + f"def judge(files):\n    return float({TEXT} == '1')") == set()
    assert kinds(other + f"def judge(files):\n    hook(None)\n    return float({TEXT} == '1')") == {
        RUNS,
        ORIGINAL_PATH,
        UNBOUNDED,
    }


def test_a_function_that_hides_what_it_does_is_not_checked() -> None:
    assert not read("from elsewhere import grade\ndef judge(files):\n    return grade(files)", "judge").sees_submission


def test_a_script_that_can_not_be_followed_is_not_checked_and_never_ok(tmp_path: Path) -> None:
    task = made("sound", tmp_path)
    (task.folder() / "grade.py").write_text("import elsewhere, sys\nelsewhere.grade(sys.argv)\n")
    findings = validate(task, only=CHECKED)
    assert {finding.verdict for finding in findings} == {Verdict.NOT_CHECKED}
    assert all("can't see where it takes the submission from" in finding.found for finding in findings)


def test_a_pattern_that_was_handed_in_may_be_what_the_task_asks_for(tmp_path: Path) -> None:
    task = made("sound", tmp_path)
    (task.folder() / "grade.py").write_text("import re, sys\nre.compile(open(sys.argv[1]).read(64))\n")
    (finding,) = validate(task, only=["no-execution"])
    assert finding.verdict is Verdict.WARN
    assert "grade.py:2 matches by a pattern that was handed in" in finding.found
