"""JPEG: segments behind markers, then runs of coded data that are skipped, up to the end marker."""

from __future__ import annotations

import re

from karotte_gym.tools.pictures.reading import NoPicture, Reader

__all__ = ["SIGNATURE", "size"]

SIGNATURE = b"\xff\xd8\xff"
_FRAMES = {0xC0, 0xC1, 0xC2}  # baseline, extended and progressive; the others no viewer of today reads
_OTHER_FRAMES = set(range(0xC3, 0xD0)) - {0xC4, 0xC8, 0xCC}
_SCAN, _END = 0xDA, 0xD9
_ALONE = {0x00, 0x01, *range(0xD0, 0xD9)}  # markers without a length, none of which may stand between segments
_NEXT_MARKER = re.compile(rb"\xff[^\x00\xff\xd0-\xd7]")  # within coded data 0 follows an ordinary FF, D0 to D7 restart


def size(data: bytes) -> tuple[int, int]:
    """(width, height), after every segment was walked over."""
    reader = Reader(data, 2)
    found: tuple[int, int] | None = None
    scans = 0
    while (marker := _marker(reader)) != _END:
        if marker in _ALONE or marker in _OTHER_FRAMES:
            raise NoPicture(f"is a JPEG with a part of an unexpected kind ({marker:02X})")
        (length,) = reader.unpack(">H")
        body = reader.take(length - 2)
        if marker in _FRAMES:
            if found is not None:
                raise NoPicture("is a damaged JPEG: it has more than one frame")
            found = _frame(body)
        if marker == _SCAN:
            scans += 1
            _skip_scan(reader, found)
    if found is None or not scans:
        raise NoPicture("is a JPEG without pixels")
    reader.end("JPEG")
    return found


def _marker(reader: Reader) -> int:
    reader.count_part()
    if reader.take(1) != b"\xff":
        raise NoPicture("is a damaged JPEG: there is no marker where one must be")
    while (marker := reader.take(1)[0]) == 0xFF:  # fill bytes
        reader.count_part()
    return marker


def _frame(body: bytes) -> tuple[int, int]:
    precision, height, width, components = Reader(body).unpack(">BHHB")
    if precision not in (8, 12) or components not in (1, 3, 4) or len(body) != 6 + 3 * components:
        raise NoPicture("is a damaged JPEG: its frame is not as it must be")
    return width, height


def _skip_scan(reader: Reader, frame: tuple[int, int] | None) -> None:
    if frame is None:
        raise NoPicture("is a damaged JPEG: pixels come before its frame")
    found = _NEXT_MARKER.search(reader.data, reader.at)
    reader.skip((len(reader.data) + 1 if found is None else found.start()) - reader.at)
