"""The grader of q3-revenue compares one small whole number, and drawn orders have the traps they should."""

from __future__ import annotations

import csv
import io
import json
import os
from pathlib import Path

import numpy as np
import pytest
from karotte_gym.envs.q3_revenue.orders import EDGES, as_csv, draw_orders, q3_revenue_cents
from scoring_script import run_script

from karotte_gym.registration import load_task

FOLDER = load_task("q3-revenue").folder()


def grade(tmp_path: Path, answer: bytes | None) -> dict[str, object]:
    place = tmp_path / "submission" / "workdir" / "data"
    place.mkdir(parents=True)
    if answer is not None:
        (place / "answer.txt").write_bytes(answer)
    return run(tmp_path)


def run(tmp_path: Path) -> dict[str, object]:
    result = tmp_path / "result.json"
    run_script(FOLDER / "grade.py", tmp_path / "submission", FOLDER / "root_data", result)
    return json.loads(result.read_text())  # type: ignore[no-any-return]


@pytest.mark.parametrize("answer", [b"63148", b"63148\n", b"63148\r\n", b"  63148\t\n\n", b"+63148", b"063148"])
def test_the_right_number_of_cents_scores_1(tmp_path: Path, answer: bytes) -> None:
    assert grade(tmp_path, answer)["score"] == 1.0


@pytest.mark.parametrize(
    "answer",
    [
        None,
        b"",
        b"\n",
        b"631.48",
        b"63148.00",
        b"63148 cents",
        b"63148\n63148",
        b"63 148",
        b"63_148",
        b"63,148",
        b"0x f6ac",
        b"6.3148e4",
        b"1e999",
        b"nan",
        b"inf",
        b"63148\0",
        b"\xef\xbb\xbf63148",
        b"\xff\xfe",
        "\u0666\u0663\u0661\u0664\u0668".encode(),
        b"63148" + b" " * 100,
        b"9" * 30_000_000,
        b"int(open('/root_data/q3_revenue.txt').read())",
        b"-63148",
        b"63147",
    ],
    ids=lambda value: repr(value)[:24],
)
def test_everything_else_scores_0_with_a_reason(tmp_path: Path, answer: bytes | None) -> None:
    result = grade(tmp_path, answer)
    assert result["score"] == 0.0
    assert result["metadata"]["reason"]  # type: ignore[index]


@pytest.mark.parametrize("kind", ["directory", "fifo", "link"])
def test_what_is_no_file_scores_0_and_blocks_nothing(tmp_path: Path, kind: str) -> None:
    place = tmp_path / "submission" / "workdir" / "data"
    place.mkdir(parents=True)
    target = place / "answer.txt"
    if kind == "directory":
        target.mkdir()
    elif kind == "fifo":
        os.mkfifo(target)
    else:
        target.symlink_to(FOLDER / "root_data" / "q3_revenue.txt")
    assert run(tmp_path)["score"] == 0.0


def test_the_ten_orders_sum_to_what_the_grader_expects() -> None:
    rows = csv.DictReader(io.StringIO((FOLDER / "student_data" / "orders.csv").read_text()))
    cents = sum(round(float(row["amount"]) * 100) for row in rows if "2025-07-01" <= row["date"] <= "2025-09-30")
    assert (FOLDER / "root_data" / "q3_revenue.txt").read_text() == f"{cents}\n" == "63148\n"


@pytest.mark.parametrize("seed", range(20))
def test_drawn_orders_have_edges_refunds_and_a_sum_that_their_text_gives_again(seed: int) -> None:
    orders = draw_orders(np.random.default_rng(seed))
    rows = list(csv.DictReader(io.StringIO(as_csv(orders))))
    assert 300 <= len(rows) <= 800
    assert {row["date"] for row in rows} >= set(EDGES)
    assert any(row["amount"].startswith("-") for row in rows)
    cents = [int(row["amount"].replace(".", "")) for row in rows if "2025-07-01" <= row["date"] <= "2025-09-30"]
    assert sum(cents) == q3_revenue_cents(orders)
    assert orders == draw_orders(np.random.default_rng(seed))
