"""`BoundedOutput` keeps both ends of a stream, counts the rest, and is exact about it."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from karotte_gym.guest.output import BoundedOutput

MARK = re.compile(rb"\n\[\.\.\. (\d+) bytes cut \.\.\.\]\n")


def fed(limit_bytes: int, *chunks: bytes) -> BoundedOutput:
    output = BoundedOutput(limit_bytes)
    for chunk in chunks:
        output.feed(chunk)
    return output


def test_what_fits_is_kept_whole() -> None:
    output = fed(10, b"01234", b"56789")
    assert output.result() == b"0123456789" and output.cut_bytes == 0


def test_the_middle_is_cut_and_counted() -> None:
    output = fed(10, b"0123456789abcdefghij")
    assert output.result() == b"01234\n[... 10 bytes cut ...]\nfghij" and output.cut_bytes == 10


@given(st.integers(2, 64), st.lists(st.binary(max_size=100), max_size=30))
def test_any_chunking_gives_the_same(limit_bytes: int, chunks: list[bytes]) -> None:
    whole = b"".join(chunks)
    assert fed(limit_bytes, *chunks).result() == fed(limit_bytes, whole).result()


@given(st.integers(2, 64), st.text(max_size=300))
def test_no_character_is_cut_through(limit_bytes: int, text: str) -> None:
    output = fed(limit_bytes, text.encode())
    head, _, tail = MARK.sub(b"\0CUT\0", output.result(), count=1).partition(b"\0CUT\0")
    if output.cut_bytes and limit_bytes >= 8:  # below that an end may be shorter than one character
        assert text.startswith(head.decode()) and text.endswith(tail.decode())


@given(st.integers(2, 64), st.binary(max_size=500))
def test_nothing_is_lost_in_the_count(limit_bytes: int, data: bytes) -> None:
    output = fed(limit_bytes, data)
    result = output.result()
    if output.cut_bytes:
        result = result.replace(b"\n[... %d bytes cut ...]\n" % output.cut_bytes, b"", 1)
    assert len(result) + output.cut_bytes == len(data) == output.total_bytes
    assert len(result) <= limit_bytes


def test_small_chunks_do_not_pile_up() -> None:
    output = fed(64, *[b"x"] * 10_000)
    assert len(output._head) + len(output._tail) <= 32 + 4 * 32
