"""Strings are found through what authors pack and spell them in, and numbers that only look alike are not."""

from __future__ import annotations

import base64
import bz2
import gzip
import io
import json
import lzma
import os
import sqlite3
import zipfile
from collections.abc import Callable

import pytest
from growth import TOO_MUCH, growth

from karotte_gym.validate.haystack import Disguises, search
from karotte_gym.validate.needles import Needle, needles_in
from karotte_gym.validate.unpacked import packed_in, views

SUM = b"605613"
NUMBER = Needle(SUM, "sum")


def is_found(data: bytes, needle: Needle = NUMBER) -> bool:
    return bool(search(Disguises([needle]), data, "here"))


def zipped(content: bytes, *, name: str = "a.txt") -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as archive:
        archive.writestr(zipfile.ZipInfo(name), content, compress_type=zipfile.ZIP_DEFLATED)
    return made.getvalue()


def database(value: object) -> bytes:
    connection = sqlite3.connect(":memory:")
    try:
        connection.execute('create table "the ""answers" (name text, value)')
        connection.execute('insert into "the ""answers" values (?, ?)', ("sum", value))
        connection.commit()
        return connection.serialize()
    finally:
        connection.close()


HIDING = [
    zipped(b"the sum was " + SUM + b"\n" * 50),
    zipped(b"nothing", name="sum-605613.txt"),
    gzip.compress(zipped(SUM)),
    gzip.compress(gzip.compress(SUM)),
    gzip.compress(b"first\n") + gzip.compress(SUM),
    base64.b64encode(gzip.compress(SUM)),
    base64.b64encode(bz2.compress(SUM)),
    base64.b64encode(lzma.compress(SUM)),
    base64.encodebytes(b"x" * 53 + b" " + SUM + b"y" * 60),
    base64.b32encode(b"ab" + SUM),
    SUM.decode().encode("utf-32"),
    SUM.hex(" ").encode(),
    SUM.hex(":").encode(),
    "".join(f"0x{byte:02x}, " for byte in SUM).encode(),
    "".join(f"%{byte:02x}" for byte in SUM).encode(),
    "".join(f"\\u{byte:04x}" for byte in SUM).encode(),
    "".join(f"\\x{byte:02x}" for byte in SUM).encode(),
    str(list(SUM)).encode(),
    b"total: 605,613",
    b"605 613",
    b"605_613",
    b"605'613.",
    b"0000605613",
    b"605613.0",
    database(605613),
    database("605613"),
]


@pytest.mark.parametrize("data", HIDING, ids=[str(number) for number in range(len(HIDING))])
def test_a_number_is_found_in_it(data: bytes) -> None:
    assert is_found(data)
    assert not is_found(data, Needle(b"999913", "another"))


@pytest.mark.parametrize(
    "data", [b"605613007", b"1605613", b"10605613", b"1,605,613", b"605,613,1", b"4,605,613,7", b"6,05,613", b"605, 613"]
)
def test_another_number_is_not_taken_for_it(data: bytes) -> None:
    assert not is_found(data)


def test_a_number_with_zeros_behind_its_point_is_the_same() -> None:
    (needle, *_) = needles_in(b'{"total": 98234.50, "n": 3}', "sums")
    assert is_found(b"98234.50", needle)
    assert is_found(b"98234.5", needle)
    assert not is_found(b"98234.51", needle)


def test_letter_case_is_no_disguise() -> None:
    assert is_found(b"it was billing-database", Needle(b"Billing-Database", "cause"))
    assert not is_found(b"it was billing database", Needle(b"Billing-Database", "cause"))


def test_a_long_file_is_found_in_base64() -> None:
    text = "\n".join(f"line number {number} of the key" for number in range(30)).encode()
    assert len(search(Disguises(needles_in(text, "key")), base64.encodebytes(text), "here")) == 30


@pytest.mark.parametrize(
    "pack", [gzip.compress, bz2.compress, zipped, lambda text: text.decode().encode("utf-16"), lambda text: b"\xfcber: " + text]
)
def test_what_a_packed_file_of_answers_holds_is_secret(pack: Callable[[bytes], bytes]) -> None:
    assert is_found(b"see db-server-77", next(n for n in needles_in(pack(b"db-server-77\n"), "x") if n.text == b"db-server-77"))


def test_what_a_database_of_answers_holds_is_secret() -> None:
    assert b"605613" in [needle.text for needle in needles_in(database(605613), "x")]


@pytest.mark.parametrize("begin", [b"\x1f\x8b", b"x", b"BZh", b"\xfd7zXZ\x00", b"PK\x03\x04", b"SQLite format 3\0"])
def test_what_begins_like_a_packed_file_and_is_none_does_no_harm(begin: bytes) -> None:
    assert is_found(begin + b" 605613")
    for length in (0, 20, 5000):
        list(views(begin + os.urandom(length)))


def test_a_bomb_is_read_in_part() -> None:
    bomb = gzip.compress(gzip.compress(bytes(40 * 2**20)) * 3)
    assert sum(len(content) for _, content in packed_in(bomb)) < 2**20
    assert sum(len(content) for _, content in views(gzip.compress(bytes(40 * 2**20)))) < 4 * 16 * 2**20


@pytest.mark.parametrize("text", ["aA", "ab ", "12,", "1,234", "0x1f", "=", "%41", "12 ", "\\u0041"])
def test_text_is_looked_through_in_time_that_grows_with_it(text: str) -> None:
    assert growth(lambda count: list(views((text * count + "!").encode())), 400) < TOO_MUCH


def test_json_escapes_of_letters_are_read() -> None:
    assert is_found(json.dumps({"a": "x"}).replace("x", "\\u0036\\u0030\\u0035\\u0036\\u0031\\u0033").encode())
