"""A short run of `benchmarks/fuzz_host.py`: hostile streams through the real channel end in one of the right ways."""

from __future__ import annotations

import random

import pytest

from benchmarks import fuzz_host, fuzz_streams


@pytest.mark.timeout(120)
def test_no_stream_breaks_the_host() -> None:
    outcomes = fuzz_host.fuzz(0, 3000, seed=random.randrange(2**32))  # a failure names seed and number
    assert sum(outcomes.values()) == 3000
    assert {"submission", "machine protocol", "machine exited"} <= outcomes.keys(), "the streams are all of one kind"


def test_right_answers_are_accepted() -> None:
    """Or else the fuzzing would only ever try the front door."""
    for number in range(200):
        frames = fuzz_streams.right_answer(random.Random(number))
        assert fuzz_host.fuzz.__module__ and _play(fuzz_streams._encode(frames)) == "submission"


def _play(stream: bytes) -> str:
    import tempfile

    with tempfile.TemporaryDirectory() as scratch, fuzz_host._watchdog():
        return fuzz_host.play(stream, scratch)
