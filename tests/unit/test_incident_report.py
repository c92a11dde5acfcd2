"""Drawn mornings can be solved and hold their traps; reports are paid for what they say, and cheats for nothing."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from karotte_gym.envs.incident_report.logs import CAUSES, SERVICES, Incident, draw_incident
from karotte_gym.envs.incident_report.rubric import JUDGE_MODEL, NOT_JUDGED, ConfiguredRubric
from scoring_script import run_script

from karotte_gym import Scoring
from karotte_gym.judges.base import Evidence
from karotte_gym.registration import load_task
from karotte_gym.sandbox.contract import Submission
from karotte_gym.store import ProtectedStore

TASK = load_task("incident-report")
FOLDER = TASK.folder()
SOLUTION = FOLDER / "solution.json"
ATTACKS = sorted((FOLDER / "attacks").glob("*.json"))
Calls = list[dict[str, Any]]


class Workplace:
    """A machine's directories without the machine: plays calls, grades what is there at each submit."""

    def __init__(self, root: Path, seed: int):
        self.root = root
        self.incident: Incident = draw_incident(np.random.default_rng(seed))
        (root / "data" / "logs").mkdir(parents=True)
        (root / "grading").mkdir()
        for service, text in self.incident.logs.items():
            (root / "data" / "logs" / f"{service}.log").write_text(text)
        (root / "grading" / "incident.json").write_text(json.dumps(self.incident.facts()))

    def play(self, calls: Calls) -> list[dict[str, Any]]:
        """The results of the steps that were submitted."""
        results: list[dict[str, Any]] = []
        for call in calls:
            if call["name"] == "submit":
                results.append(self.graded("grade_cause.py" if not results else "grade_report.py"))
                if len(results) == 2 or results[-1].get("stop_task"):
                    break
            else:
                command = call["arguments"]["command"].replace("/workdir", str(self.root))
                subprocess.run(["bash", "-c", command], check=False, capture_output=True, timeout=30)
        return results

    def graded(self, script: str) -> dict[str, Any]:
        submission, result = self.root / "submission" / "workdir" / "data", self.root / "result.json"
        submission.mkdir(parents=True, exist_ok=True)
        for name in ("answer.json", "report.md"):
            (submission / name).unlink(missing_ok=True)
            if (self.root / "data" / name).exists():
                (submission / name).write_bytes((self.root / "data" / name).read_bytes())
        run_script(FOLDER / script, self.root / "submission", self.root / "grading", result)
        found: dict[str, Any] = json.loads(result.read_text())
        return found


def total(results: list[dict[str, Any]]) -> float:
    return TASK().combine_scores([Scoring(each["score"]) for each in results])


def load(path: Path) -> Calls:
    calls: Calls = json.loads(path.read_text())
    return calls


@pytest.mark.parametrize("seed", range(8))
def test_the_solution_earns_the_full_score_on_any_morning(tmp_path: Path, seed: int) -> None:
    results = Workplace(tmp_path, seed).play(load(SOLUTION))
    assert [each["score"] for each in results] == [1.0, 1.0], results
    assert total(results) == 1.0


@pytest.mark.parametrize("path", ATTACKS, ids=lambda path: path.stem)
def test_no_attack_is_paid(tmp_path: Path, path: Path) -> None:
    results = Workplace(tmp_path, len(path.stem)).play(load(path))
    assert results
    assert total(results) == 0.0, results


@pytest.mark.parametrize("seed", range(30))
def test_a_morning_has_its_traps(seed: int) -> None:
    incident = draw_incident(np.random.default_rng(seed))
    assert incident == draw_incident(np.random.default_rng(seed))
    lines = {service: text.splitlines() for service, text in incident.logs.items()}
    assert set(lines) == set(SERVICES)
    gateway = [line for line in lines["gateway"] if " 502: " in line]
    own = [line for line in lines[incident.service] if line.endswith(CAUSES[incident.cause])]
    assert len(own) == incident.failed == len(incident.evidence) > 40
    assert own[0].split()[0] == incident.first_failure
    assert len(gateway) == incident.failed + 4, "failures of another kind"
    assert gateway[0].split()[0] < incident.first_failure, "the first failure of all is another one"
    worker = [line for line in lines["mail-worker"] if " ERROR " in line]
    assert worker[0].split()[0] < incident.first_failure
    assert not any(CAUSES[incident.cause] in line for line in worker)
    errors = [line for line in lines[incident.service] if " ERROR " in line]
    assert errors[0].split()[0] < incident.first_failure, "an error that a retry made good comes first"


@pytest.fixture
def written(tmp_path: Path) -> tuple[Workplace, Path]:
    """A morning with the right answer and report."""
    place = Workplace(tmp_path, 5)
    place.play(load(SOLUTION))
    return place, tmp_path / "data" / "report.md"


Change = Callable[[str, Incident], str]
SUMMARY = "## Summary\n\n"
OTHER_TIMES = "At 2026-03-14T07:00:00Z nothing was wrong yet, at 2026-03-14T10:00:00Z the logs end."


def first(it: Incident, time: str = "") -> str:
    return f"First failure: {time or it.first_failure}"


def near(it: Incident) -> list[str]:
    """Six guesses, the right one among them, which a timeline has room for."""
    return [f"{it.first_failure[:-2]}{digit}Z" for digit in sorted({0, 2, 4, 6, 8, int(it.first_failure[-2])})]


def numbers(it: Incident, more: int) -> str:
    return f"{SUMMARY}In all {it.failed + more} failed requests. "


def another(name: str, known: Iterable[str]) -> str:
    return next(each for each in known if each != name)


def copied(it: Incident, count: int) -> str:
    lines = [line for line in it.logs[it.service].splitlines() if line.endswith(CAUSES[it.cause])]
    return "".join(f"{line}\n" for line in lines[:count])


def only_logs(it: Incident) -> str:
    return f"{copied(it, 2)}\n{it.failed} failed requests\n"


def timeline() -> str:
    return "".join(f"- 2026-03-14T07:{minute:02}:00Z: all is well.\n" for minute in range(20))


WORTH: list[tuple[str, float, Change]] = [
    ("Windows line ends", 1.0, lambda text, _: text.replace("\n", "\r\n")),
    ("another time", 0.75, lambda text, it: text.replace(it.first_failure, "2026-03-14T07:00:00Z", 1)),
    ("other times beside it", 1.0, lambda text, _: text.replace("## Cause", f"{OTHER_TIMES}\n\n## Cause")),
    ("guessed times", 0.0, lambda text, it: text.replace(first(it), "\n".join(first(it, at) for at in near(it)))),
    ("guessed times in one line", 0.0, lambda text, it: text.replace(first(it), first(it, " or ".join(near(it))))),
    ("guessed times without a mark", 0.0, lambda text, it: text.replace(first(it), "\n".join(near(it)))),
    ("the time elsewhere", 0.0, lambda text, it: text.replace(first(it), "").replace("## Impact", f"{first(it)}\n\n## Impact")),
    ("another number", 0.75, lambda text, it: text.replace(f"{it.failed} failed", f"{it.failed + 1} failed")),
    ("the number twice", 1.0, lambda text, it: text + f"\n{it.failed} failed requests\n"),
    (
        "the number in the summary",
        1.0,
        lambda text, it: text.replace(SUMMARY, f"{SUMMARY}In all {it.failed} failed requests. "),
    ),
    ("the number in bold", 1.0, lambda text, it: text.replace(f"{it.failed} failed", f"**{it.failed}** failed")),
    ("the number at a line's end", 1.0, lambda text, _: text.replace("failed requests", "failed\nrequests")),
    (
        "the number in the summary only",
        0.0,
        lambda text, it: text.replace(f"{it.failed} f", "F").replace(SUMMARY, numbers(it, 0)),
    ),
    ("another number in the summary", 0.0, lambda text, it: text.replace(SUMMARY, numbers(it, 1))),
    ("another number in bold", 0.0, lambda text, it: text + f"\nor **{it.failed + 1}** failed requests\n"),
    ("another number with more spaces", 0.0, lambda text, it: text + f"\nor {it.failed + 1}  failed  requests\n"),
    ("another number in the title", 0.0, lambda text, _: "# 7 failed requests\n\n" + text),
    ("the number elsewhere", 0.0, lambda text, _: text.replace("## Timeline", "7 failed requests\n\n## Timeline")),
    ("the cause twice", 0.0, lambda text, it: text + f"\nCause: {it.cause}\n"),
    ("no cause", 0.0, lambda text, it: text.replace(f"Cause: {it.cause}", "")),
    ("another order", 0.0, lambda text, _: text.replace("## Impact", "## X").replace("## Cause", "## Impact")),
    ("a section more", 1.0, lambda text, _: text + "\n## Prevention\n\nAs above.\n"),
    ("a section between", 1.0, lambda text, _: text.replace("## Impact", "## What we did\n\nNothing yet.\n\n## Impact")),
    ("a subheading", 1.0, lambda text, _: text.replace("## Impact", "### How it spread\n\nUpwards.\n\n## Impact")),
    ("a section twice", 0.0, lambda text, _: text + "\n## Summary\n\nOnce more.\n"),
    ("a section first", 0.0, lambda text, _: "## Authors\n\nWe.\n\n" + text),
    ("the cause in a section more", 0.0, lambda text, _: text.replace("Cause: ", f"## More\n\n{OTHER_TIMES}\n\nCause: ")),
    ("another cause in a section more", 0.0, lambda text, it: text + f"\n## Or\n\n{another(it.cause, CAUSES)}\n"),
    ("another service in a section more", 0.0, lambda text, _: text + "\n## Or\n\nmail-worker\n"),
    ("a title", 1.0, lambda text, _: "# Incident report, 14 March 2026\n\n" + text),
    ("two titles", 0.0, lambda text, _: "# One\n\n# Two\n\n" + text),
    ("another cause in the title", 0.0, lambda text, it: f"# {another(it.cause, CAUSES)}\n\n" + text),
    ("a preface", 0.0, lambda text, _: "The cause was found.\n" + text),
    ("a byte order mark", 1.0, lambda text, _: "\ufeff" + text),
    ("marked up", 1.0, lambda text, it: text.replace("Cause: ", "- **Cause:** ").replace(first(it), f"* {first(it)}")),
    ("another cause marked up", 0.0, lambda text, it: text + f"\n- **Cause:** `{it.cause}`\n"),
    ("a long timeline", 1.0, lambda text, _: text.replace("## Cause", timeline() + "\n## Cause")),
    ("a quoted remark", 1.0, lambda text, _: text + "\n> One\n>\n> remark\n> of mine\n> on it.\n"),
    ("two more lines of logs", 1.0, lambda text, it: text.replace("## Impact", copied(it, 2) + "\n## Impact")),
    ("three more lines of logs", 0.0, lambda text, it: text.replace("## Impact", copied(it, 3) + "\n## Impact")),
    ("three more lines of logs as quotes", 0.0, lambda text, it: text + re.sub("^", "> ", copied(it, 3), flags=re.M)),
    ("three more lines of logs without times", 0.0, lambda text, it: text + re.sub("^.*Z ", "- ", copied(it, 3), flags=re.M)),
    ("logs in place of sentences", 0.0, lambda text, it: re.sub(r"(## Impact\n).*", rf"\1{only_logs(it)}", text, flags=re.S)),
    ("no quote", 0.0, lambda text, _: text.replace("> ", "- ")),
    ("too long", 0.0, lambda text, _: text + "a word " * 700),
    ("NUL bytes", 0.0, lambda text, _: "\0" * 100 + text),
    ("empty", 0.0, lambda _text, _: ""),
]


@pytest.mark.parametrize(("score", "change"), [each[1:] for each in WORTH], ids=[each[0] for each in WORTH])
def test_a_report_is_worth_what_it_says(written: tuple[Workplace, Path], score: float, change: Change) -> None:
    place, path = written
    before = path.read_text()
    path.write_bytes(change(before, place.incident).encode())
    assert path.read_bytes() != before.encode()
    result = place.graded("grade_report.py")
    assert result["score"] == score, result
    assert result["metadata"]["reason"]


@pytest.mark.parametrize(
    "data",
    [b"", b"{}", b"[]", b"null", b"\xff", b"[" * 1000, b'{"cause": 1, "service": 2, "first_failure": 3}', b" " * 2000],
    ids=lambda data: repr(data[:12]),
)
def test_an_answer_of_another_form_scores_0_and_ends_the_task(written: tuple[Workplace, Path], data: bytes) -> None:
    place, report = written
    (report.parent / "answer.json").write_bytes(data)
    result = place.graded("grade_cause.py")
    assert (result["score"], result["stop_task"]) == (0.0, True)
    assert place.graded("grade_report.py")["score"] == 0.0


@pytest.mark.parametrize("script", ["grade_cause.py", "grade_report.py"])
@pytest.mark.parametrize("kind", ["directory", "fifo", "link"])
def test_what_is_no_file_scores_0_and_blocks_nothing(tmp_path: Path, script: str, kind: str) -> None:
    place = Workplace(tmp_path, 1)
    target = tmp_path / "submission" / "workdir" / "data" / "answer.json"
    target.parent.mkdir(parents=True)
    if kind == "directory":
        target.mkdir()
    elif kind == "fifo":
        os.mkfifo(target)
    else:
        target.symlink_to(tmp_path / "grading" / "incident.json")
    run_script(FOLDER / script, tmp_path / "submission", tmp_path / "grading", tmp_path / "result.json")
    assert json.loads((tmp_path / "result.json").read_text())["score"] == 0.0
    assert place.incident.cause not in (tmp_path / "result.json").read_text()


def test_a_byte_order_mark_before_the_answer_costs_nothing(written: tuple[Workplace, Path]) -> None:
    place, report = written
    answer = report.parent / "answer.json"
    answer.write_bytes(b"\xef\xbb\xbf" + answer.read_bytes())
    assert [place.graded(script)["score"] for script in ("grade_cause.py", "grade_report.py")] == [1.0, 1.0]


def test_a_right_answer_with_another_time_is_half_and_goes_on(tmp_path: Path) -> None:
    place = Workplace(tmp_path, 2)
    right = place.incident
    answer = {"cause": right.cause, "service": right.service, "first_failure": "2026-03-14T07:00:00Z"}
    (tmp_path / "data" / "answer.json").write_text(json.dumps(answer))
    result = place.graded("grade_cause.py")
    assert (result["score"], result["stop_task"]) == (0.5, False)


def test_whoever_leaves_after_the_first_step_has_reported_nothing() -> None:
    assert TASK().combine_scores([Scoring(1.0)]) == 0.0
    assert TASK().combine_scores([Scoring(0.5), Scoring(0.75)]) == 0.375


def test_without_a_model_the_rubric_says_that_it_was_not_judged() -> None:
    def no_machine() -> Any:
        raise AssertionError("a rubric needs no machine")

    submission = Submission(files=(), missing=(), sha256="")
    store = ProtectedStore()
    store[JUDGE_MODEL] = ""
    evidence = Evidence(submission=submission, grader_machine=no_machine, store=store)
    scoring = ConfiguredRubric().judge(evidence)
    assert (scoring.score, scoring.metadata) == (1.0, {"reason": NOT_JUDGED})
