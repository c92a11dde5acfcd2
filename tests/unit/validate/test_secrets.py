"""Secrets are found in every disguise that is looked through, and what merely resembles one is not."""

from __future__ import annotations

import base64
import bz2
import gzip
import lzma
import os
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest
from growth import TOO_MUCH, growth

from karotte_gym.registration import load_task
from karotte_gym.validate.haystack import Disguises, search
from karotte_gym.validate.needles import Needle, needles_in, needles_of_folder, without_known

KEY = b"correct-horse-7"


def found(needles: list[Needle], data: bytes) -> list[str]:
    return [hit.disguise for hit in search(Disguises(needles), data, "here")]


@pytest.mark.parametrize(
    ("disguise", "name"),
    [
        (lambda text: text, "plain text"),
        (lambda text: text.hex().encode(), "hexadecimal"),
        (lambda text: text.hex().upper().encode(), "hexadecimal"),
        (lambda text: text[::-1], "text in reverse"),
        (lambda text: text.decode().encode("utf-16"), "UTF-16"),
        (lambda text: base64.b64encode(text), "base64"),
        (lambda text: base64.b64encode(b"a" + text + b"zz"), "base64"),
        (lambda text: base64.b64encode(b"ab" + text + b"z"), "base64"),
        (lambda text: gzip.compress(text), "plain text, compressed"),
        (lambda text: zlib.compress(text), "plain text, compressed"),
        (lambda text: bz2.compress(text), "plain text, compressed"),
        (lambda text: lzma.compress(text * 20), "plain text, compressed"),
        (lambda text: gzip.compress(base64.b64encode(text)), "base64, compressed"),
    ],
)
def test_a_secret_is_found_in_its_disguise(disguise: Callable[[bytes], bytes], name: str) -> None:
    hidden = disguise(b"xx" + KEY) if "compressed" in name else disguise(KEY)
    noise = b"" if "compressed" in name else os.urandom(1000).replace(KEY, b"")
    assert found([Needle(KEY, "key")], noise + hidden + (b"" if "compressed" in name else b"\n")) == [name]
    assert found([Needle(b"another-horse-8", "key")], noise + hidden) == []


def test_a_number_is_found_only_where_no_digit_stands_beside_it() -> None:
    needles = needles_in(b"63148\n", "sum")
    assert found(needles, b"a sum of 63148.") == ["plain text"]
    assert found(needles, b"163148 631480 6314") == []


@pytest.mark.parametrize("text", ["1", "1.", "12.5 ", "a1", "a: "])
def test_a_file_is_read_in_time_that_grows_with_it(text: str) -> None:
    assert growth(lambda count: needles_in((text * count + "a").encode(), "x"), 400) < TOO_MUCH


@pytest.mark.parametrize("text", [b"1234\n", b"short\n", b"2025-07-01\n", b"2025-07-01T10:00:00Z\n", b"[]", b""])
def test_what_is_short_or_a_date_is_no_secret(text: bytes) -> None:
    assert needles_in(text, "x") == []


def test_every_value_of_a_short_json_file_is_a_secret_and_no_key_is() -> None:
    needles = needles_in(b'{"service": "billing-db", "ports": [54321], "ok": true}', "facts.json")
    assert [needle.text for needle in needles] == [b"billing-db", b"54321"]


def test_of_a_long_file_half_is_a_leak_and_a_line_is_none() -> None:
    lines = [f"customer {number} bought nothing" for number in range(40)]
    needles = needles_in("\n".join(lines).encode(), "rows.txt")
    assert found(needles, lines[3].encode()) == []
    assert len(found(needles, "\n".join(lines[:20]).encode())) == 20


def test_a_long_key_in_a_long_file_is_a_secret_by_itself() -> None:
    text = "\n".join(["some words that stand here"] * 3 + [f"line {n} of many" for n in range(9)] + ["k: a8f3c0d91b7e"])
    assert b"a8f3c0d91b7e" in [needle.text for needle in needles_in(text.encode(), "x") if not needle.whole]


def test_of_a_binary_file_its_middle_is_a_secret() -> None:
    data = os.urandom(5000) + b"\xff"
    assert found(needles_in(data, "model.bin"), b"\0" * 50 + data + b"\0" * 50) == ["plain text"]


def test_what_the_instructions_say_is_no_secret(tmp_path: Path) -> None:
    task = load_task("q3-revenue")
    (tmp_path / "a.txt").write_text("order_id, date, amount in euros\n")
    (tmp_path / "b.txt").write_text("something else\n")
    assert [needle.text for needle in without_known(needles_of_folder(tmp_path), task)] == [b"something else"]


def test_a_report_does_not_repeat_the_secret() -> None:
    assert KEY.decode() not in Needle(KEY, "key").shown
