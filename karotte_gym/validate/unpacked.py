"""What is in some bytes when they are taken for something else than text: packed, encoded, spelled out or a database.

Simple and bounded: two layers of packing, and encodings of what is a few MiB long. Whoever wants to hide a string from
this can; it finds what was put there by accident or taken for protection.
"""

from __future__ import annotations

import base64
import binascii
import bz2
import io
import lzma
import re
import sqlite3
import zipfile
import zlib
from collections.abc import Callable, Iterator
from typing import Any

__all__ = ["SPELLED", "packed_in", "views"]

MAX_INFLATED_BYTES = 16 * 1024 * 1024
MAX_SPELLED_BYTES = 4 * 1024 * 1024
MAX_PARTS, MAX_ROWS = 200, 100_000
LAYERS = 2
GZIP_OR_ZLIB = 32 + zlib.MAX_WBITS
ZIP, SQLITE, XZ, BZIP2, GZIP = b"PK\x03\x04", b"SQLite format 3\0", b"\xfd7zXZ\x00", b"BZh", b"\x1f\x8b"
BASE64 = re.compile(rb"[A-Za-z0-9+/\r\n]{12,}={0,2}")
HEXADECIMAL = re.compile(rb"(?:(?:\\u00|\\x|%|0x)?[0-9a-fA-F]{2}[ ,:;\r\n]{0,2}){6,}")
NO_HEXADECIMAL = re.compile(rb"\\u00|\\x|0x|[^0-9a-fA-F]")
CODE_POINTS = re.compile(rb"(?:[0-9]{2,3}[,;\s]\s?){5,}[0-9]{2,3}")
GROUPED = re.compile(rb"(?<![0-9])(?<![0-9][,_' ])[0-9]{1,3}([,_' ])[0-9]{3}(?:\1[0-9]{3})*(?![,_' ]?[0-9])")
NO_DIGIT = re.compile(rb"[^0-9]")
BASE32 = re.compile(rb"[A-Z2-7]{10,}")
IN_BASE64, IN_BASE32, IN_HEXADECIMAL, BY_LETTER, SEPARATED = (
    f", {how}" for how in ("in base64", "in base32", "in hexadecimal", "letter by letter", "with separators")
)
SPELLED = (IN_BASE64, IN_BASE32, IN_HEXADECIMAL, BY_LETTER, SEPARATED)  # in these only plain text is looked for
Named = tuple[str, bytes]


def views(data: bytes, layers: int = LAYERS) -> Iterator[Named]:
    """The bytes themselves, named "", and all that is in them; a name says how, such as ", compressed"."""
    yield "", data
    packed = list(packed_in(data))
    if len(data) <= MAX_SPELLED_BYTES:
        runs = [run for run in map(_from_base64, BASE64.findall(data)) if run]
        packed += [(IN_BASE64, run) for run in runs if run.startswith((GZIP, ZIP, XZ, BZIP2))][:MAX_PARTS]
        yield IN_BASE64, b"\n".join(runs)
        yield IN_BASE32, b"\n".join(map(_from_base32, BASE32.findall(data)))
        yield IN_HEXADECIMAL, b"\n".join(map(_from_hexadecimal, HEXADECIMAL.findall(data)))
        yield BY_LETTER, b"\n".join(_from_code_points(match[0]) for match in CODE_POINTS.finditer(data))
        yield SEPARATED, b"\n".join(NO_DIGIT.sub(b"", match[0]) for match in GROUPED.finditer(data))
    for name, content in packed if layers else ():
        yield from ((f"{name}{more}", inner) for more, inner in views(content, layers - 1))


def packed_in(data: bytes) -> Iterator[Named]:
    """What is in it when it is compressed, an archive or a database."""
    if data.startswith(GZIP) or data[:1] == b"\x78":
        yield from _inflated(lambda: zlib.decompressobj(GZIP_OR_ZLIB), data)
    elif data.startswith(BZIP2):
        yield from _inflated(bz2.BZ2Decompressor, data)
    elif data.startswith(XZ):
        yield from _inflated(lzma.LZMADecompressor, data)
    elif data.startswith(ZIP):
        yield from _members(data)
    elif data.startswith(SQLITE):
        yield from _rows(data)


def _inflated(decompressor: Callable[[], Any], data: bytes) -> Iterator[Named]:
    """All members one after the other, for a file may have several."""
    found = b""
    try:
        while data and len(found) < MAX_INFLATED_BYTES:
            member = decompressor()
            found += member.decompress(data, MAX_INFLATED_BYTES - len(found))
            if not member.eof:
                break
            data = member.unused_data
    except (zlib.error, OSError, lzma.LZMAError, EOFError):
        pass  # begins like compressed data and is none, or something else follows
    if found:
        yield ", compressed", found


def _members(data: bytes) -> Iterator[Named]:
    room = MAX_INFLATED_BYTES
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            for member in archive.infolist()[:MAX_PARTS]:
                with archive.open(member) as stream:
                    content = stream.read(room)
                room -= len(content)
                yield ", compressed", member.filename.encode("utf-8", "replace") + b"\n" + content
                yield ", compressed", content
    except (zipfile.BadZipFile, zlib.error, lzma.LZMAError, OSError, EOFError, RuntimeError, NotImplementedError, ValueError):
        return  # none, or locked


def _rows(data: bytes) -> Iterator[Named]:
    """Every value of every table as text."""
    database = sqlite3.connect(":memory:")
    try:
        database.deserialize(data)
        database.text_factory = bytes
        values: list[bytes] = []
        for (name,) in database.execute("select name from sqlite_master where type = 'table'").fetchmany(MAX_PARTS):
            table = name.decode("utf-8", "replace").replace('"', '""')
            for row in database.execute(f'select * from "{table}"').fetchmany(MAX_ROWS):
                values += [value if isinstance(value, bytes) else str(value).encode() for value in row]
        yield ", in a database", b"\n".join(values)
    except sqlite3.Error:
        return
    finally:
        database.close()


def _from_base64(text: bytes) -> bytes:
    letters = re.sub(rb"[\r\n=]", b"", text)
    letters += b"A" if len(letters) % 4 == 1 else b""
    try:
        return base64.b64decode(letters + b"=" * (-len(letters) % 4))
    except binascii.Error:
        return b""


def _from_base32(text: bytes) -> bytes:
    whole = text[: len(text) // 8 * 8] if len(text) % 8 in (1, 3, 6) else text
    return base64.b32decode(whole + b"=" * (-len(whole) % 8))


def _from_hexadecimal(text: bytes) -> bytes:
    digits = NO_HEXADECIMAL.sub(b"", text.replace(b"%", b" "))
    return bytes.fromhex(digits[: len(digits) // 2 * 2].decode())


def _from_code_points(text: bytes) -> bytes:
    return bytes(number for number in map(int, re.findall(rb"[0-9]+", text)) if number < 256)
