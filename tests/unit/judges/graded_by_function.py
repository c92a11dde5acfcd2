"""Functions for `FunctionJudge`; each stands for one thing that an author's function may do over a hostile file."""

# ruff: noqa: ARG001 - what an author's function must take, these need not read
from __future__ import annotations

import json
import os
import re
import time
from pathlib import Path

from karotte_gym import ConfigError, FunctionContext, Scoring, SubmissionUnusable, SubmittedFiles

ANSWER = "/workdir/answer.json"


def total_is_right(files: SubmittedFiles) -> float:
    return 1.0 if json.loads(files.read_text(ANSWER, max_bytes=1000))["total"] == 42 else 0.0


def with_notes(files: SubmittedFiles) -> Scoring:
    return Scoring(0.5, {"files": files.list()}, stop_task=True)


def by_context(files: SubmittedFiles, context: FunctionContext) -> Scoring:
    expected = context.grading_data["expected"]
    found = {"store": context.store["drawn"], "seed": context.seed, "said": context.messages[0]["content"]}
    return Scoring(float(files.read_bytes(ANSWER) == expected), found)


def by_root_data(files: SubmittedFiles, context: FunctionContext) -> float:
    assert context.root_data is not None
    return float(files.read_bytes(ANSWER) == (context.root_data / "key").read_bytes())


def without_end(files: SubmittedFiles) -> float:
    while files.exists(ANSWER):
        time.sleep(0.01)
    return 1.0


def by_backtracking(files: SubmittedFiles) -> float:
    return 1.0 if re.search(r"(a+)+$", files.read_text(ANSWER)) else 0.0


def by_all_memory(files: SubmittedFiles) -> float:
    data = files.read_bytes(ANSWER)
    while len(data) < 1 << 40:
        data += data
    return 1.0


def by_dying(files: SubmittedFiles) -> float:
    os.abort()


def by_hanging_up(files: SubmittedFiles) -> float:
    os.closerange(3, os.sysconf("SC_OPEN_MAX"))
    time.sleep(3600)
    return 1.0


def by_leaving(files: SubmittedFiles) -> float:
    raise SystemExit(0)


def by_no_score(files: SubmittedFiles) -> object:
    words = {"true": True, "text": "1" * 5000, "nan": float("nan"), "two": 2.0, "none": None, "digits": 10**5000}
    return words[files.read_text(ANSWER)]


def by_wrong_scoring(files: SubmittedFiles) -> Scoring:
    return Scoring(1.0, {"far": float("inf")}) if files.read_text(ANSWER) == "notes" else Scoring(2.0)


def by_refusing(files: SubmittedFiles) -> float:
    raise SubmissionUnusable("\x1b[31m" + files.read_text(ANSWER))


def by_manifest(files: SubmittedFiles) -> float:
    """What most functions of the kind do: the submission says where to look and how."""
    manifest = json.loads(files.read_text(ANSWER))
    return float(getattr(files, manifest["how"])(manifest["file"]) is not None)


def by_any_notes(files: SubmittedFiles) -> Scoring:
    return Scoring(1.0, json.loads(files.read_text(ANSWER)))


def by_notes_added_later(files: SubmittedFiles) -> Scoring:
    scoring = Scoring(1.0, {})
    scoring.metadata.update(json.loads(files.read_text(ANSWER)))
    return scoring


def by_huge_error(files: SubmittedFiles) -> float:
    raise ValueError(files.read_text(ANSWER))


def by_own_error(files: SubmittedFiles) -> float:
    raise ConfigError("the word list is not installed")


def by_printing(files: SubmittedFiles) -> float:
    for _ in range(1000):
        print(files.read_text(ANSWER) * 100)
    return 1.0


def by_environment(files: SubmittedFiles) -> Scoring:
    return Scoring(1.0, {"keys": [name for name in os.environ if "KEY" in name or "CANARY" in name]})


def by_a_child(files: SubmittedFiles) -> float:
    """Leaves a process behind and hangs; the process says by a file that it still runs."""
    beat = Path(files.read_text(ANSWER))
    if os.fork() == 0:
        while True:
            beat.write_text(str(time.time()))
            time.sleep(0.02)
    while True:
        time.sleep(1)


class Checks:
    @staticmethod
    def inside_a_class(files: SubmittedFiles, least: int = 1) -> float:
        return float(len(files.list()) >= least)
