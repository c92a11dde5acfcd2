"""WebP: chunks in a RIFF, of which one holds the pixels, in either of two codings."""

from __future__ import annotations

from karotte_gym.tools.pictures.reading import ANIMATED, NoPicture, Reader

__all__ = ["matches", "size"]

_PIXELS = (b"VP8 ", b"VP8L")
_DAMAGED = "is a damaged WebP: {}"


def matches(data: bytes) -> bool:
    """Whether the bytes begin as a WebP does."""
    return data[:4] == b"RIFF" and data[8:12] == b"WEBP"


def size(data: bytes) -> tuple[int, int]:
    """(width, height), after every chunk was walked over."""
    reader = Reader(data, 4)
    (length,) = reader.unpack("<I")
    reader.skip(4)
    if len(data) < length + 8:
        reader.skip(length)  # which says that it is cut off
    found: list[tuple[int, int]] = []
    canvas: tuple[int, int] | None = None
    while reader.at < length + 8:
        kind, body = _chunk(reader)
        if kind == b"VP8X":
            if canvas or found:
                raise NoPicture(_DAMAGED.format("its header is not the first part"))
            canvas = _canvas(body)
        elif kind in _PIXELS:
            found.append(_lossy(body) if kind == b"VP8 " else _lossless(body))
        elif kind in (b"ANIM", b"ANMF"):
            raise NoPicture(ANIMATED)
    if len(found) != 1 or canvas not in (None, found[0]):
        raise NoPicture(_DAMAGED.format("it must hold one picture of the size that it says"))
    reader.end("WebP")
    return found[0]


def _chunk(reader: Reader) -> tuple[bytes, bytes]:
    reader.count_part()
    kind, length = reader.unpack("<4sI")
    body = reader.take(length)
    reader.skip(length % 2)
    return kind, body


def _canvas(body: bytes) -> tuple[int, int]:
    reader = Reader(body)
    (flags,) = reader.unpack("<Bxxx")
    if flags & 0x02:
        raise NoPicture(ANIMATED)
    return 1 + int.from_bytes(reader.take(3), "little"), 1 + int.from_bytes(reader.take(3), "little")


def _lossy(body: bytes) -> tuple[int, int]:
    tag, start, width, height = Reader(body).unpack("<3s3sHH")
    if tag[0] & 1 or start != b"\x9d\x01\x2a":
        raise NoPicture(_DAMAGED.format("its pixels do not begin as they must"))
    return width & 0x3FFF, height & 0x3FFF


def _lossless(body: bytes) -> tuple[int, int]:
    signature, bits = Reader(body).unpack("<BI")
    if signature != 0x2F or bits >> 29:
        raise NoPicture(_DAMAGED.format("its pixels do not begin as they must"))
    return 1 + (bits & 0x3FFF), 1 + (bits >> 14 & 0x3FFF)
