"""GIF: a screen, then blocks; one frame is a still picture."""

from __future__ import annotations

from karotte_gym.tools.pictures.reading import ANIMATED, NoPicture, Reader

__all__ = ["SIGNATURES", "size"]

SIGNATURES = (b"GIF87a", b"GIF89a")
_EXTENSION, _FRAME, _END = 0x21, 0x2C, 0x3B


def size(data: bytes) -> tuple[int, int]:
    """(width, height), after every block was walked over."""
    reader = Reader(data, 6)
    width, height, flags, _, _ = reader.unpack("<HHBBB")
    _skip_colours(reader, flags)
    frames = 0
    while (kind := reader.take(1)[0]) != _END:
        reader.count_part()
        if kind == _EXTENSION:
            reader.skip(1)
        elif kind == _FRAME:
            frames += 1
            _frame(reader, width, height)
        else:
            raise NoPicture("is a damaged GIF: it has a block of a kind that does not exist")
        _skip_blocks(reader)
        if frames > 1:
            raise NoPicture(ANIMATED)
    if not frames:
        raise NoPicture("is a GIF without pixels")
    reader.end("GIF")
    return width, height


def _frame(reader: Reader, width: int, height: int) -> None:
    left, top, own_width, own_height, flags = reader.unpack("<HHHHB")
    if not (own_width and own_height and left + own_width <= width and top + own_height <= height):
        raise NoPicture("is a damaged GIF: its frame does not fit into its size")
    _skip_colours(reader, flags)
    reader.skip(1)  # size of the codes


def _skip_colours(reader: Reader, flags: int) -> None:
    if flags & 0x80:
        reader.skip(3 << (1 + (flags & 7)))


def _skip_blocks(reader: Reader) -> None:
    while length := reader.take(1)[0]:
        reader.count_part()
        reader.skip(length)
