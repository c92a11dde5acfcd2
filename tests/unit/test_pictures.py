"""Pictures are let through by their form alone: real ones pass, and no bytes whatever raise anything but `NoPicture`."""

from __future__ import annotations

import base64
import struct
import time
import zlib

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from karotte_gym.messages import image_messages
from karotte_gym.picture_budget import PictureBudget
from karotte_gym.tool_results import ToolResult
from karotte_gym.tools.pictures import MAX_PICTURE_BYTES, ImagePart, NoPicture, picture_of


def chunk(kind: bytes, body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))


def png(width: int = 3, height: int = 2, *extra: bytes, pixels: bytes | None = None) -> bytes:
    header = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0))
    body = zlib.compress(b"\0" * (3 * width + 1) * height) if pixels is None else pixels
    return b"\x89PNG\r\n\x1a\n" + header + b"".join(extra) + chunk(b"IDAT", body) + chunk(b"IEND", b"")


def gif(width: int = 3, height: int = 2, frames: int = 1, own: tuple[int, int] | None = None) -> bytes:
    frame = struct.pack("<BHHHHB", 0x2C, 0, 0, *(own or (width, height)), 0) + b"\x02\x02\x4c\x01\x00"
    screen = struct.pack("<HHBBB", width, height, 0x80, 0, 0) + b"\0" * 6
    return b"GIF89a" + screen + b"\x21\xf9\x04\0\0\0\0\0" + frame * frames + b";"


def bmp(width: int = 3, height: int = 2, compression: int = 0) -> bytes:
    rows = b"\0" * ((width * 24 + 31) // 32 * 4 * abs(height))
    header = struct.pack("<IiiHHIIiiII", 40, width, height, 1, 24, compression, 0, 0, 0, 0, 0)
    return b"BM" + struct.pack("<IHHI", 54 + len(rows), 0, 0, 54) + header + rows


def segment(marker: int, body: bytes) -> bytes:
    return struct.pack(">BBH", 0xFF, marker, len(body) + 2) + body


def jpeg(width: int = 3, height: int = 2, *extra: bytes, frame: int = 0xC0) -> bytes:
    """A JPEG in its form; whether its one scan decodes to anything is not what is looked at."""
    start = segment(frame, struct.pack(">BHHB", 8, height, width, 1) + b"\x01\x11\0")
    scan = segment(0xDA, b"\x01\x01\0\0\x3f\0") + b"\xa7\xff\x00\x12\xff\xd0\x34"
    return b"\xff\xd8" + segment(0xE0, b"JFIF\0\1\1\0\0\1\0\1\0\0") + b"".join(extra) + start + scan + b"\xff\xd9"


def riff(*chunks: tuple[bytes, bytes]) -> bytes:
    parts = b"".join(kind + struct.pack("<I", len(body)) + body + b"\0" * (len(body) % 2) for kind, body in chunks)
    return b"RIFF" + struct.pack("<I", len(parts) + 4) + b"WEBP" + parts


def lossless(width: int = 3, height: int = 2) -> tuple[bytes, bytes]:
    return b"VP8L", b"\x2f" + struct.pack("<I", (width - 1) | (height - 1) << 14) + b"\0" * 8


def lossy(width: int = 3, height: int = 2) -> tuple[bytes, bytes]:
    return b"VP8 ", b"\x10\0\0\x9d\x01\x2a" + struct.pack("<HH", width, height) + b"\0" * 9


def extended(width: int, height: int, flags: int = 0) -> tuple[bytes, bytes]:
    return b"VP8X", bytes([flags, 0, 0, 0]) + (width - 1).to_bytes(3, "little") + (height - 1).to_bytes(3, "little")


# Made by libjpeg and libwebp: one grey pixel each.
REAL_WEBP = base64.b64decode("UklGRiQAAABXRUJQVlA4IBgAAAAwAQCdASoBAAEADMDOJaQAA3AA/uxnAAA=")
REAL_JPEG = base64.b64decode(
    "/9j/4AAQSkZJRgABAQAAAQABAAD/2wBDAP////////////////////////////////////////////////////////////////////////////"
    "//////////wAALCAABAAEBAREA/8QAHwAAAQUBAQEBAQEAAAAAAAAAAAECAwQFBgcICQoL/8QAtRAAAgEDAwIEAwUFBAQAAAF9AQIDAAQRBRIh"
    "MUEGE1FhByJxFDKBkaEII0KxwRVS0fAkM2JyggkKFhcYGRolJicoKSo0NTY3ODk6Q0RFRkdISUpTVFVWV1hZWmNkZWZnaGlqc3R1dnd4eXqDhI"
    "WGh4iJipKTlJWWl5iZmqKjpKWmp6ipqrKztLW2t7i5usLDxMXGx8jJytLT1NXW19jZ2uHi4+Tl5ufo6erx8vP09fb3+Pn6/9oACAEBAAA/AI6/"
    "/9k="
)
GOOD = {
    "PNG": png(), "GIF": gif(), "BMP": bmp(), "JPEG": jpeg(), "WebP": riff(lossy()),
}  # fmt: skip


def refusal(data: bytes) -> str:
    with pytest.raises(NoPicture) as caught:
        picture_of(data)
    return str(caught.value)


@pytest.mark.parametrize("kind", GOOD)
def test_each_format_is_told_by_its_bytes(kind: str) -> None:
    image = picture_of(GOOD[kind])
    assert (image.kind, image.width, image.height, image.data) == (kind, 3, 2, GOOD[kind])
    assert base64.b64decode(image.url.removeprefix(f"data:image/{kind.lower()};base64,")) == GOOD[kind]
    assert image.described().startswith(f"{kind}, 3 x 2 pixels, {len(GOOD[kind])} bytes, sha256 {image.sha256}")


@pytest.mark.parametrize(
    ("data", "size"),
    [
        (REAL_WEBP, (1, 1)),
        (REAL_JPEG, (1, 1)),
        (riff(lossless(16383 // 3, 7)), (5461, 7)),
        (riff(extended(3, 2, 0x10), (b"ALPH", b"\0" * 5), lossy()), (3, 2)),
        (jpeg(frame=0xC2), (3, 2)),
        (bmp(3, -2), (3, 2)),
        (gif(5, 5, own=(2, 3)), (5, 5)),
        (png(8000, 5000, pixels=b"x"), (8000, 5000)),
    ],
)
def test_what_else_is_a_picture(data: bytes, size: tuple[int, int]) -> None:
    image = picture_of(data)
    assert (image.width, image.height) == size


@pytest.mark.parametrize("kind", GOOD)
def test_a_picture_that_is_cut_off_anywhere_is_none(kind: str) -> None:
    for length in range(len(GOOD[kind])):
        refusal(GOOD[kind][:length])
    assert "cut off" in refusal(GOOD[kind][:-1])


@pytest.mark.parametrize("kind", GOOD)
def test_nothing_may_hide_behind_a_picture(kind: str) -> None:
    """A file that is two things at once is read as one here and as the other elsewhere."""
    said = refusal(GOOD[kind] + b"PK\x03\x04 an archive")
    assert "after the end" in said or "has" in said


@pytest.mark.parametrize(
    "data",
    [
        gif(frames=2),
        png(3, 2, chunk(b"acTL", b"\0" * 8)),
        riff(extended(3, 2, 2), lossy()),
        riff((b"ANIM", b"\0" * 6), lossy()),
    ],
)
def test_what_moves_is_not_shown(data: bytes) -> None:
    assert "animated" in refusal(data)


@pytest.mark.parametrize(
    "data",
    [png(8001, 1), png(7000, 7000, pixels=b"x"), png(2**31, 2**31, pixels=b"x"), gif(65535, 65535), jpeg(65535, 65535),
     riff(lossless(16384, 16384)), riff(lossy(16383, 16383)), bmp(9000, 1)],
)  # fmt: skip
def test_a_picture_that_would_fill_the_memory_of_who_decodes_it_is_refused(data: bytes) -> None:
    assert "too large" in refusal(data)


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "empty"),
        (b"<svg xmlns='http://www.w3.org/2000/svg'/>", "no PNG, JPEG"),
        (b"\xff" * 50, "no PNG, JPEG"),
        (png().replace(b"IHDR", b"IHDX"), "damaged"),
        (png().replace(b"IDATx", b"IDATy"), "checksum"),
        (png(0, 2, pixels=b"x"), "no pixels"),
        (png(3, 2, chunk(b"zTXt", b"x" * (2 << 20))), "at most"),
        (png(3, 2, chunk(b"IHDR", b"\0" * 13)), "not as it must be"),
        (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", 3, 2, 8, 7, 0, 0, 0)), "does not exist"),
        (jpeg(3, 0), "no pixels"),
        (jpeg(3, 2, segment(0xC0, struct.pack(">BHHB", 8, 9, 9, 1) + b"\x01\x11\0")), "more than one frame"),
        (jpeg(frame=0xC3), "unexpected kind"),
        (b"\xff\xd8\xff\xd9", "without pixels"),
        (gif(frames=0), "without pixels"),
        (gif(3, 2, own=(4, 2)), "does not fit"),
        (riff(lossy(), lossy()), "one picture"),
        (riff(extended(30, 20), lossy()), "one picture"),
        (riff(lossy(), extended(3, 2)), "first part"),
        (bmp(compression=1), "save it as PNG"),
        (bmp(-3, 2), "contradicts"),
    ],
)
def test_why_it_is_none_is_said(data: bytes, said: str) -> None:
    assert said in refusal(data)


@settings(max_examples=300)
@given(st.sampled_from(sorted(GOOD)), st.integers(0, 120), st.binary(max_size=12), st.integers(0, 12))
@example("JPEG", 3, b"", 1)
def test_damage_is_named_and_never_raises_anything_else(kind: str, place: int, put: bytes, gone: int) -> None:
    data = GOOD[kind][:place] + put + GOOD[kind][place + gone :]
    try:
        assert 0 < picture_of(data).width <= 8000
    except NoPicture as problem:
        assert 5 < len(str(problem)) < 200


@pytest.mark.parametrize(
    "unit", [b"\xff", b"\xff\xe0\0\2", b"\xff\xda\0\2", b"\x21\xfe\1a\0", b"abcd\0\0\0\0", b"\0\0\0\0abcd", b"\xff\x00"]
)
def test_ten_megabytes_of_nothing_take_no_time(unit: bytes) -> None:
    starts = [b"\xff\xd8\xff\xe0\0\2", jpeg()[:33], b"GIF89a\1\0\1\0\0\0\0", b"RIFF\xf8\xff\x9f\0WEBP", b"\x89PNG\r\n\x1a\n"]
    began = time.thread_time()  # the processor's time, of which a busy host takes none
    for start in starts:
        refusal((start + unit * (MAX_PICTURE_BYTES // len(unit)))[:MAX_PICTURE_BYTES])
    assert time.thread_time() - began < 10
    assert "at most" in refusal(GOOD["PNG"] + b"\0" * MAX_PICTURE_BYTES)


def test_the_message_with_a_picture_holds_no_word_of_the_students() -> None:
    """What comes from the user is the task's; a student that could write there would speak with the task's voice."""
    image = picture_of(png())
    (message,) = image_messages([image])
    assert message["role"] == "user"
    assert [part["type"] for part in message["content"]] == ["text", "image_url"]
    assert message["content"][0]["text"] == "The picture that the tool read:"
    assert message["content"][1]["image_url"] == {"url": image.url}


def test_an_episode_has_room_for_so_many_bytes_of_pictures() -> None:
    image = ImagePart("PNG", "image/png", 1, 1, b"x" * 400)
    budget = PictureBudget(1000)
    result = ToolResult("p: PNG", exit_code=0, images=(image,))
    assert budget.admit(result) is result and budget.admit(result) is result
    refused = budget.admit(result)
    assert refused.images == () and refused.exit_code == 1
    assert refused.text == "p: PNG\n[not shown: 200 of 1000 bytes are left for pictures in this episode; make it smaller]"
    assert budget.admit(ToolResult("text")).text == "text"
