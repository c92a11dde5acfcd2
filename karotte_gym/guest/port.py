"""The agent's end of the virtio port: whole frames in, whole frames out.

The port is a byte stream that outlives its peers: after a restore from a snapshot another host process is at the other
end. A read that returns nothing means that nobody is there at the moment; what was half received is then void.
"""

from __future__ import annotations

import json
import os
import threading
import time
from collections import deque
from typing import Any

from .wire import MAX_BODY_BYTES, MAX_HEADER_BYTES, PORT_NAME, PREFIX

__all__ = ["BrokenStream", "FrameReader", "FrameWriter", "open_port"]

READ_BYTES = 256 * 1024
_decode = json.JSONDecoder().raw_decode  # `json.loads` guesses an encoding first, and `decode` looks for blanks
NOBODY_PAUSE_S = 0.01  # between looks for a host while none is connected


class BrokenStream(Exception):
    """What came is no frame, and nothing after it can be understood."""


def open_port(timeout_s: float = 10.0) -> int:
    """Open the port by its name; the driver may need a moment to show it."""
    deadline = time.monotonic() + timeout_s
    while True:
        for entry in _listed("/sys/class/virtio-ports"):
            with open(f"/sys/class/virtio-ports/{entry}/name") as file:
                if file.read().strip() == PORT_NAME:
                    return os.open(f"/dev/{entry}", os.O_RDWR | os.O_CLOEXEC)
        if time.monotonic() > deadline:
            raise FileNotFoundError(f"this machine has no virtio port named {PORT_NAME}")
        time.sleep(0.01)


def _listed(path: str) -> list[str]:
    return sorted(os.listdir(path)) if os.path.isdir(path) else []


class FrameReader:
    """Takes frames from a descriptor, one thread only."""

    def __init__(self, fd: int):
        self._fd = fd
        self._buffer = bytearray()
        self._chunk = memoryview(bytearray(READ_BYTES))  # made once: the C library maps so much anew for each read

    def read(self) -> tuple[dict[str, Any], bytes]:
        """The next frame; waits as long as it takes. BrokenStream when the bytes are none."""
        while True:
            frame = self._take()
            if frame is not None:
                return frame
            if size := os.readv(self._fd, [self._chunk]):
                self._buffer += self._chunk[:size]
            else:
                self._buffer.clear()
                time.sleep(NOBODY_PAUSE_S)

    def _take(self) -> tuple[dict[str, Any], bytes] | None:
        if len(self._buffer) < PREFIX.size:
            return None
        header_bytes, body_bytes = PREFIX.unpack_from(self._buffer)
        if header_bytes > MAX_HEADER_BYTES or body_bytes > MAX_BODY_BYTES:
            raise BrokenStream(f"a frame claims {header_bytes} and {body_bytes} bytes")
        middle, end = PREFIX.size + header_bytes, PREFIX.size + header_bytes + body_bytes
        if len(self._buffer) < end:
            return None
        start, body = bytes(self._buffer[PREFIX.size : middle]), bytes(self._buffer[middle:end])
        del self._buffer[:end]
        try:
            text = start.decode()
            header, size = _decode(text)
        except (ValueError, RecursionError) as error:
            raise BrokenStream(f"a header is no JSON: {error}") from error
        if not isinstance(header, dict) or size != len(text):
            raise BrokenStream("a header is no object, or more than one")
        return header, body


class FrameWriter:
    """Writes frames to a descriptor, any thread. A host that reads slowly holds up writers, never the reader."""

    def __init__(self, fd: int):
        self._fd = fd
        self._lock = threading.Lock()
        self._urgent: deque[bytes] = deque()

    def write(self, frame: bytes) -> None:
        """Write one frame; blocks while the host does not read."""
        with self._lock:
            self._put(frame)
            self._put_urgent()
        self._leave_none()

    def write_soon(self, frame: bytes) -> None:
        """Write one frame now or, when somebody is writing, right after that frame. For the reading thread."""
        self._urgent.append(frame)
        self._leave_none()

    def _leave_none(self) -> None:
        # A frame may have been added between the holder's last look and its release: look again until that is excluded.
        while self._urgent and self._lock.acquire(blocking=False):
            try:
                self._put_urgent()
            finally:
                self._lock.release()

    def _put_urgent(self) -> None:
        while self._urgent:
            self._put(self._urgent.popleft())

    def _put(self, frame: bytes) -> None:
        written = os.write(self._fd, frame)
        if written < len(frame):
            rest = memoryview(frame)[written:]
            while rest:
                rest = rest[os.write(self._fd, rest) :]
