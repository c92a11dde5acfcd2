"""A short run of `benchmarks/fuzz_host.py`: hostile streams through the real channel end in one of the right ways."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from benchmarks import fuzz_host, fuzz_streams


@pytest.mark.timeout(120)
def test_no_stream_breaks_the_host() -> None:
    outcomes = fuzz_host.fuzz(0, 3000, seed=random.randrange(2**32))  # a failure names seed and number
    assert sum(outcomes.values()) == 3000
    assert {"submission", "machine protocol", "machine exited"} <= outcomes.keys(), "the streams are all of one kind"


def test_right_answers_are_accepted(tmp_path: Path) -> None:
    """Or else the fuzzing would only ever try the front door."""
    with fuzz_host.watchdog():
        for number in range(200):
            stream = fuzz_streams.encode(fuzz_streams.right_answer(random.Random(number)))
            assert fuzz_host.play(stream, str(tmp_path)) == "submission"
