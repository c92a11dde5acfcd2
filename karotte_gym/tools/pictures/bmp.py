"""BMP: a header that says how many bytes the rows take, and the rows. Compressed ones are so rare that none is shown."""

from __future__ import annotations

from karotte_gym.tools.pictures.reading import NoPicture, Reader

__all__ = ["SIGNATURE", "size"]

SIGNATURE = b"BM"
_HEADERS = (40, 52, 56, 108, 124)
_DEPTHS = (1, 4, 8, 16, 24, 32)
_PLAIN, _MASKS = 0, 3


def size(data: bytes) -> tuple[int, int]:
    """(width, height), after it was seen that the rows are there and are the last thing."""
    reader = Reader(data, 2)
    length, _, rows_at, header = reader.unpack("<IIII")
    width, height, planes, depth, compression = reader.unpack("<iiHHI")
    if header not in _HEADERS or planes != 1 or depth not in _DEPTHS or compression not in (_PLAIN, _MASKS):
        raise NoPicture("is a BMP of a kind that is not shown; save it as PNG")
    height = abs(height)  # negative: the first row is the topmost
    rows_bytes = (width * depth + 31) // 32 * 4 * height
    if width < 1 or rows_at < 14 + header:
        raise NoPicture("is a damaged BMP: its header contradicts itself")
    reader.at = 0
    reader.skip(rows_at + rows_bytes)
    if length != len(data):
        raise NoPicture(f"is a damaged BMP: it says that it has {length} bytes, and has {len(data)}")
    reader.end("BMP")
    return width, height
