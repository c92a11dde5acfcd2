"""`ImagePart`: a picture on its way from the student's machine to a model, and `picture_of`, which lets no other bytes in."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field

from karotte_gym.tools.pictures import bmp, gif, jpeg, png, webp
from karotte_gym.tools.pictures.reading import NoPicture

__all__ = ["MAX_PICTURE_BYTES", "MAX_PIXELS", "MAX_SIDE_PIXELS", "ImagePart", "picture_of"]

MAX_PICTURE_BYTES = 10 << 20  # what the machine's agent reads at once
MAX_SIDE_PIXELS = 8000  # the most that a large provider takes
MAX_PIXELS = 40_000_000  # 160 MB when decoded, by whoever does

_FORMATS: tuple[tuple[str, str, Callable[[bytes], bool], Callable[[bytes], tuple[int, int]]], ...] = (
    ("PNG", "image/png", lambda data: data.startswith(png.SIGNATURE), png.size),
    ("JPEG", "image/jpeg", lambda data: data.startswith(jpeg.SIGNATURE), jpeg.size),
    ("GIF", "image/gif", lambda data: data.startswith(gif.SIGNATURES), gif.size),
    ("WebP", "image/webp", webp.matches, webp.size),
    ("BMP", "image/bmp", lambda data: data.startswith(bmp.SIGNATURE), bmp.size),
)


@dataclass(frozen=True, slots=True)
class ImagePart:
    """One checked picture. `data` is what the student made: pass it on, don't open it."""

    kind: str  # as people say it: "PNG"
    media_type: str
    width: int
    height: int
    data: bytes = field(repr=False)

    @property
    def sha256(self) -> str:
        """What a transcript keeps of it."""
        return hashlib.sha256(self.data).hexdigest()

    @property
    def url(self) -> str:
        """The whole picture as a ``data:`` URL, which nobody has to fetch."""
        return f"data:{self.media_type};base64,{base64.b64encode(self.data).decode()}"

    def described(self) -> str:
        """One line for the student and the transcript."""
        return f"{self.kind}, {self.width} x {self.height} pixels, {len(self.data)} bytes, sha256 {self.sha256}"


def picture_of(data: bytes) -> ImagePart:
    """The picture that the bytes are. NoPicture for whatever else they are."""
    if len(data) > MAX_PICTURE_BYTES:
        raise NoPicture(f"has {len(data)} bytes; at most {MAX_PICTURE_BYTES} are shown")
    for kind, media_type, is_it, size in _FORMATS:
        if is_it(data):
            width, height = size(data)
            _check_size(width, height)
            return ImagePart(kind, media_type, width, height, data)
    raise NoPicture("is no PNG, JPEG, GIF, WebP or BMP" if data else "is empty")


def _check_size(width: int, height: int) -> None:
    if not width or not height:
        raise NoPicture(f"has no pixels: {width} x {height}")
    if max(width, height) > MAX_SIDE_PIXELS or width * height > MAX_PIXELS:
        most = f"{MAX_SIDE_PIXELS} a side and {MAX_PIXELS // 1_000_000} million together"
        raise NoPicture(f"is too large: {width} x {height} pixels; at most {most} are shown, so make it smaller")
