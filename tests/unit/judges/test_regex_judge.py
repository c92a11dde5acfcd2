"""`RegexJudge` finds a pattern in the student's own words or files, and no text makes it slow."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from karotte_gym import ConfigError, RegexJudge
from karotte_gym.messages import malformed_messages
from tests.unit.judges.evidence import NEEDS, called, evidence_of, said

PROMPT = said("Find the failing host and end with: the host is db-7", role="user")
PATTERN = r"the host is db-\d"


def submitted(message: str, result: str = "Submitted.") -> list[dict[str, Any]]:
    return called("submit", json.dumps({"message": message}), result)


@pytest.mark.parametrize(
    "messages",
    [
        submitted("the host is db-7"),
        [said("nothing yet"), *submitted("I think the host is db-7, done")],
        [*submitted("not db-7", "Wrong arguments."), *submitted("the host is db-7")],
        submitted("lone \ud800 surrogate, the host is db-7"),
    ],
)
def test_what_it_said_when_it_submitted_is_found(tmp_path: Path, messages: list[dict[str, Any]]) -> None:
    scoring = RegexJudge(PATTERN).judge(evidence_of(tmp_path, messages=(PROMPT, *messages)))
    assert (scoring.score, scoring.metadata["match"]) == (1.0, "the host is db-7")


@pytest.mark.parametrize(
    "messages",
    [
        [],
        [said("the host is db-7")],
        [{"role": "assistant", "content": [{"type": "text", "text": "the host is db-7"}]}],
        [*submitted("the host is db-7", "There is no time left."), *submitted("")],
        [*submitted("the host is db-7", "There is no time left."), *called("submit", "{}", "Submitted.")],
        [said("the host is db-7", role="user")],
        [said("the host is db-7", role="system")],
        called("bash", json.dumps({"command": "cat prompt"}), "the host is db-7"),
        called("bash", json.dumps({"command": "echo the host is db-7"}), ""),
        called("submit", "the host is db-7", "Wrong arguments."),
        called("submit", json.dumps({"message": ["the host is db-7"]}), "Wrong arguments."),
        called("submit", "[" * 100_000, "Wrong arguments."),
        [{"role": "assistant", "content": None, "tool_calls": "the host is db-7"}],
        [{"role": "assistant", "content": [{"type": "image_url", "image_url": "the host is db-7"}, "the host is db-7"]}],
        [said("the host is"), said("db-7")],
    ],
)
def test_nothing_else_in_the_chat_is(tmp_path: Path, messages: list[dict[str, Any]]) -> None:
    everything = json.dumps([PROMPT, *messages])
    assert re.search(PATTERN, everything), "a judge that searched the whole chat would have paid"
    assert RegexJudge(PATTERN).judge(evidence_of(tmp_path, messages=(PROMPT, *messages))).score == 0.0


def test_answers_tried_as_actions_that_are_no_call_are_no_answer(tmp_path: Path) -> None:
    judge = RegexJudge(r"\A737\z")
    tried = [message for guess in range(1000) for message in malformed_messages(str(guess), "That was no call.")]
    assert any(re.fullmatch("737", message["content"]) for message in tried), "each message alone would have been found"
    assert judge.judge(evidence_of(tmp_path, messages=(PROMPT, *tried))).score == 0.0
    assert judge.judge(evidence_of(tmp_path, messages=(PROMPT, *tried, *submitted("I do not know.")))).score == 0.0
    assert judge.judge(evidence_of(tmp_path, messages=(PROMPT, *tried, *submitted("737")))).score == 1.0


def test_a_message_that_is_too_large_is_not_searched(tmp_path: Path) -> None:
    judge = RegexJudge("right", max_bytes=100)
    scoring = judge.judge(evidence_of(tmp_path, messages=submitted("right" + "\u00e9" * 48)))
    assert (scoring.score, scoring.metadata["reason"]) == (0.0, "the message of submit has 101 bytes; 100 are read")


def test_a_file_is_searched_and_not_the_chat(tmp_path: Path) -> None:
    judge = RegexJudge(r"\A63148\n?\z", "/workdir/answer.txt")
    assert judge.judge(evidence_of(tmp_path, {"/workdir/answer.txt": b"63148\n"})).score == 1.0
    assert judge.judge(evidence_of(tmp_path, {"/workdir/answer.txt": b"63147 63148 63149"})).score == 0.0
    assert judge.judge(evidence_of(tmp_path, {"/workdir/answer.txt": b"\xff\xfe63148"})).score == 0.0
    elsewhere = judge.judge(evidence_of(tmp_path, {"/workdir/other": b"63148"}, messages=submitted("63148")))
    assert (elsewhere.score, elsewhere.metadata["reason"]) == (0.0, "/workdir/answer.txt was not handed in")
    directory = judge.judge(evidence_of(tmp_path, {"/workdir/answer.txt": None}))
    assert "is a directory" in directory.metadata["reason"]


@pytest.mark.parametrize("pattern", [r"\A\z", r"\A\s*\z", "^$"])
def test_that_a_file_is_empty_can_be_asked_for(tmp_path: Path, pattern: str) -> None:
    judge = RegexJudge(pattern, "/workdir/errors.txt")
    assert judge.judge(evidence_of(tmp_path, {"/workdir/errors.txt": b""})).score == 1.0
    assert judge.judge(evidence_of(tmp_path, {"/workdir/errors.txt": b"one"})).score == 0.0


def test_a_file_that_is_too_large_is_not_searched(tmp_path: Path) -> None:
    judge = RegexJudge("right", "/workdir/x", max_bytes=100)
    scoring = judge.judge(evidence_of(tmp_path, {"/workdir/x": b"right" + b" " * 96}))
    assert (scoring.score, scoring.metadata["reason"]) == (0.0, "/workdir/x has 101 bytes; 100 are read")


def test_a_text_made_for_backtracking_costs_nothing(tmp_path: Path) -> None:
    pattern, text = r"(a+)+$", "a" * 40 + "b"
    attack = f"import re; re.search({pattern!r}, {text!r})"
    with pytest.raises(subprocess.TimeoutExpired):  # the attack works on an engine that backtracks
        subprocess.run([sys.executable, "-c", attack], timeout=3, check=False)
    started = time.process_time()
    files = {"/workdir/x": ("a" * 1_000_000 + "b").encode()}
    assert RegexJudge(pattern, "/workdir/x").judge(evidence_of(tmp_path, files)).score == 0.0
    assert time.process_time() - started < 30, "linear, so far below: the bound is for a busy host"


def test_what_is_kept_of_a_match_is_short_and_harmless(tmp_path: Path) -> None:
    scoring = RegexJudge("(?s).+").judge(evidence_of(tmp_path, messages=submitted("\x1b[2J" + "x" * 5000)))
    assert "\x1b" not in scoring.metadata["match"] and len(scoring.metadata["match"]) < 250


def test_case_counts_unless_told_otherwise(tmp_path: Path) -> None:
    evidence = evidence_of(tmp_path, messages=submitted("DONE"))
    assert RegexJudge("done").judge(evidence).score == 0.0
    assert RegexJudge("done", ignore_case=True).judge(evidence).score == 1.0


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"pattern": ""}, "an empty one"),
        ({"pattern": 5}, "pattern must be text"),
        ({"pattern": "("}, r"RE2 takes \(missing \)"),
        ({"pattern": "(?=a)"}, "look-around"),
        ({"pattern": r"(a)\1"}, "back-references"),
        ({"pattern": "a", "where": "x.txt"}, 'where must be "messages"'),
        ({"pattern": "a", "where": "/etc/passwd"}, 'where must be "messages"'),
        ({"pattern": "a", "max_bytes": 0}, "max_bytes"),
        ({"pattern": "x*"}, r"'x\*' matches the empty text, which is found everywhere"),
        ({"pattern": ".*"}, "matches the empty text"),
        ({"pattern": "x|"}, "matches the empty text"),
        ({"pattern": r"\B"}, "matches the empty text"),
        ({"pattern": "(?m)^"}, "matches the empty text"),
        ({"pattern": r"\b"}, "matches the empty text"),
        ({"pattern": "(a?){1000}", "where": "/workdir/x"}, "matches the empty text"),
    ],
)
def test_a_mistake_is_found_when_the_judge_is_made(arguments: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ConfigError, match=sentence):
        RegexJudge(**arguments)


def test_the_record_names_the_pattern() -> None:
    assert RegexJudge("a+").criterion(NEEDS) == {
        "judge": "RegexJudge",
        "pattern": "a+",
        "where": "messages",
        "max_bytes": "1048576",
    }
