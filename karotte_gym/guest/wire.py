"""How the host and the agent inside the machine talk over one virtio port: frames of bytes.

A frame is ``u32 header length | u32 body length | header | body`` (big endian). The header is a JSON object, the
body raw bytes. Requests: ``{"id": int, "method": str, "params": {...}}``. Replies carry the same ``id`` and one of

- ``{"id", "part": {...}}``    an intermediate piece of a streamed answer (any number, body allowed)
- ``{"id", "result": {...}}``  the last frame of a call that worked (body allowed)
- ``{"id", "error": {"kind": str, "message": str}}``  the last frame of a call that was refused

Several calls may be outstanding; replies come in any order. The same numbers bound both sides: a peer that sends more
is not talking to us. This module is shared by both sides and imports the standard library only; the host decodes with
its own, distrustful reader (``karotte_gym/sandbox/channel.py``) and takes from here the format alone.
"""

from __future__ import annotations

import json
import struct
from typing import Any

PREFIX = struct.Struct(">II")
MAX_HEADER_BYTES = 256 * 1024  # the longest header is a shell command of MAX_COMMAND_BYTES, escaped
MAX_BODY_BYTES = 1024 * 1024  # one chunk of a file; longer things are streamed
PORT_NAME = "karotte.agent"  # /dev/virtio-ports/<name>, and the name QEMU is given

__all__ = ["MAX_BODY_BYTES", "MAX_HEADER_BYTES", "PORT_NAME", "PREFIX", "encode"]

_encode = json.JSONEncoder(separators=(",", ":"), ensure_ascii=True, allow_nan=False).encode  # `json.dumps` makes one a call


def encode(header: dict[str, Any], body: bytes = b"") -> bytes:
    """One frame. Raises ValueError when the header or body is over its bound."""
    text = _encode(header).encode()
    if len(text) > MAX_HEADER_BYTES or len(body) > MAX_BODY_BYTES:
        raise ValueError(f"frame too large: header {len(text)} bytes, body {len(body)} bytes")
    return PREFIX.pack(len(text), len(body)) + text + body
