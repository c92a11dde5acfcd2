"""PNG: chunks with checksums, the header first, the end last."""

from __future__ import annotations

import zlib

from karotte_gym.tools.pictures.reading import ANIMATED, NoPicture, Reader

__all__ = ["SIGNATURE", "size"]

SIGNATURE = b"\x89PNG\r\n\x1a\n"
_DEPTHS = {0: (1, 2, 4, 8, 16), 2: (8, 16), 3: (1, 2, 4, 8), 4: (8, 16), 6: (8, 16)}  # by colour type
MAX_EXTRA_BYTES = 1 << 20  # of one chunk that holds no pixels: a profile or a text may be compressed, too


def size(data: bytes) -> tuple[int, int]:
    """(width, height), after every chunk was walked over."""
    reader = Reader(data, len(SIGNATURE))
    kind, body = _chunk(reader)
    if kind != b"IHDR" or len(body) != 13:
        raise NoPicture("is a damaged PNG: its header is not where it belongs")
    width, height, colour = _header(body)
    kinds = {kind}
    while kind != b"IEND":
        kind, body = _chunk(reader)
        if kind == b"IHDR" or (kind == b"PLTE" and kind in kinds) or (kind == b"IEND" and body):
            raise NoPicture(f"is a damaged PNG: its part {kind.decode()} is not as it must be")
        if kind in (b"acTL", b"fcTL", b"fdAT"):
            raise NoPicture(ANIMATED)
        if kind != b"IDAT" and len(body) > MAX_EXTRA_BYTES:
            raise NoPicture(f"has a part {kind.decode()} of {len(body)} bytes; at most {MAX_EXTRA_BYTES} are shown")
        kinds.add(kind)
    if b"IDAT" not in kinds or (colour == 3 and b"PLTE" not in kinds):
        raise NoPicture("is a PNG without pixels")
    reader.end("PNG")
    return width, height


def _chunk(reader: Reader) -> tuple[bytes, bytes]:
    reader.count_part()
    length, kind = reader.unpack(">I4s")
    if not kind.isalpha():
        raise NoPicture("is a damaged PNG: a part has no name")
    body = reader.take(length)
    (checksum,) = reader.unpack(">I")
    if zlib.crc32(body, zlib.crc32(kind)) != checksum:
        raise NoPicture(f"is a damaged PNG: the checksum of its part {kind.decode()} is wrong")
    return kind, body


def _header(body: bytes) -> tuple[int, int, int]:
    width, height, depth, colour, compression, filtering, interlacing = Reader(body).unpack(">IIBBBBB")
    if depth not in _DEPTHS.get(colour, ()) or compression or filtering or interlacing > 1:
        raise NoPicture("is a PNG of a kind that does not exist")
    return width, height, colour
