"""A text that is cut keeps its ends and says how much is missing."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from karotte_gym.bounded_text import bounded


@given(st.text(max_size=400), st.integers(0, 300))
def test_bounded_keeps_short_texts_and_never_exceeds_its_limit(text: str, limit: int) -> None:
    kept = bounded(text, limit)
    assert len(kept) <= limit
    if len(text) <= limit:
        assert kept == text


def test_bounded_keeps_head_and_tail_and_says_how_much_is_missing() -> None:
    kept = bounded("H" * 500 + "T" * 500, 200)
    assert kept.startswith("HHH")
    assert kept.endswith("TTT")
    assert "800 characters left out" in kept
