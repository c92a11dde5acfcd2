"""Makes hostile streams: bytes that an agent owned by its student might answer a `collect` call with.

Four kinds: noise; a right answer; a right answer with its bytes damaged; a right answer with its structure damaged,
which gets furthest, because each single frame of it is well formed.
"""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Callable
from typing import Any

from karotte_gym.guest.wire import PREFIX

__all__ = ["PATHS", "encode", "hostile_stream", "right_answer"]

PATHS = ("/workdir/data/answer.txt", "/workdir/out")
CALL_ID = 1  # the first call of a channel
MAX_STREAM_BYTES = 150_000  # what a socket takes without a reader

Frames = list[tuple[dict[str, Any], bytes]]

EVIL_PATHS = [
    "/etc/passwd", "../../escape", "/workdir/out/../../../escape", "/workdir/out//x", "/workdir/out/.", "escape", "",
    "/", "/workdir/out/\0", "/workdir/out/\n", "/workdir/out/\ud800", "/workdir/out/" + "n" * 300,
    "/workdir/out" + "/d" * 40, "/workdir/outside", "/workdir/data/answer.txt/x", "/workdir/out/\u202e", "000000",
]  # fmt: skip
EVIL_VALUES: list[Any] = [
    None, True, False, -1, 0, 1, 2**31, 2**63, 10**25, -(2**63), 1.5, 1e308, "", "x", [], {}, [[]], {"a": {"b": {}}},
    "0" * 64, "a" * 5000, ["x"] * 50, {"path": "/workdir/out"}, *EVIL_PATHS,
]  # fmt: skip
EVIL_HEADERS = [
    b"{}", b"[]", b"null", b"1", b"", b"{", b'{"id":1}', b'{"id":1,"part":{}}', b'{"id":1,"id":1,"part":{}}',
    b'{"id":1,"part":{"missing":NaN}}', b'{"id":1,"result":{},"error":{}}', b'{"id":1,"error":{"kind":"custody"}}',
    b'{"id":1,"error":{"kind":"custody","message":"\\u001b[2J \\ud800 link"}}', b'{"id":true,"part":{"missing":"/"}}',
    b'{"id":1,"result":' + b"[" * 5000 + b"]" * 5000 + b"}", b'{"id":1,"result":' + b'{"a":' * 900 + b"1" + b"}" * 901,
    b'{"id":' + b"1" * 6000 + b"}", b'{"id":1,"error":{"kind":"internal","message":7}}', b"\xff\xfe{}",
    b'{"id":1,"result":{"entries":1e999}}', b'{"id":2,"result":{}}', b'{"id":0,"result":{}}', b'{"id":-1,"result":{}}',
    b'{"id":1,"error":{"kind":"custody","message":"the path /workdir/out is a link"}}', b'{"id":1,"result":"x"}',
]  # fmt: skip


def hostile_stream(chance: random.Random) -> bytes:
    """A stream for one call with the id 1, at most as long as a socket takes."""
    kind = chance.choices([_noise, _right, _damaged_bytes, _damaged_frames], weights=[1, 1, 3, 10])[0]
    return kind(chance)[:MAX_STREAM_BYTES]


def right_answer(chance: random.Random) -> Frames:
    """What an honest agent sends for a random submission within the limits."""
    frames: Frames = []
    entries = 0
    if chance.random() < 0.3:
        frames.append(_part({"missing": PATHS[0]}))
    else:
        entries += _file(frames, chance, PATHS[0])
    if chance.random() < 0.3:
        frames.append(_part({"missing": PATHS[1]}))
    else:
        entries += _tree(frames, chance, PATHS[1])
    frames.append(({"id": CALL_ID, "result": {"entries": entries, "bytes": 0}}, b""))
    return frames


def _part(value: dict[str, Any], body: bytes = b"") -> tuple[dict[str, Any], bytes]:
    return {"id": CALL_ID, "part": value}, body


def _tree(frames: Frames, chance: random.Random, top: str) -> int:
    frames.append(_part({"dir": {"path": top, "mode": 0o755}}))
    directories = [top]
    for number in range(chance.randrange(6)):
        path = f"{chance.choice(directories)}/{number}"
        if chance.random() < 0.4 and path.count("/") < top.count("/") + 3:
            frames.append(_part({"dir": {"path": path, "mode": chance.randrange(0o1000)}}))
            directories.append(path)
        else:
            _file(frames, chance, path)
    return len(directories)


def _file(frames: Frames, chance: random.Random, path: str) -> int:
    pieces = [(chance.random() < 0.3, chance.randrange(1, 3000)) for _ in range(chance.randrange(4))]
    size = sum(length for _, length in pieces)
    frames.append(_part({"file": {"path": path, "mode": chance.randrange(0o1000), "size": size}}))
    digest, offset = hashlib.sha256(), 0
    for is_hole, length in pieces:
        if is_hole:
            frames.append(_part({"hole": {"offset": offset, "length": length}}))
        else:
            body = chance.randbytes(length)
            digest.update(body)
            frames.append(_part({"data": {"offset": offset}}, body))
        offset += length
    frames.append(_part({"end": {"sha256": digest.hexdigest()}}))
    return 1


def encode(frames: Frames) -> bytes:
    """As the wire has it, but without its bounds and checks."""
    texts = [(json.dumps(header).encode(), body) for header, body in frames]
    return b"".join(PREFIX.pack(len(text), len(body)) + text + body for text, body in texts)


def _noise(chance: random.Random) -> bytes:
    data = chance.randbytes(chance.choice([0, 1, 7, 8, 9, 100, 5000]))
    prefix = PREFIX.pack(chance.choice([0, 1, 2, 50, 2**31, 2**32 - 1]), chance.choice([0, 5, 2**20, 2**20 + 1, 2**32 - 1]))
    return (prefix if chance.random() < 0.5 else b"") + data


def _right(chance: random.Random) -> bytes:
    return encode(right_answer(chance))


def _damaged_bytes(chance: random.Random) -> bytes:
    data = bytearray(encode(right_answer(chance)))
    for _ in range(chance.randrange(1, 5)):
        at = chance.randrange(len(data) or 1)
        damage: Callable[[], object] = chance.choice(
            [
                lambda at=at: data.__setitem__(slice(at, at + 1), bytes([chance.randrange(256)])),
                lambda at=at: data.__delitem__(slice(at, at + chance.randrange(20))),
                lambda at=at: data.__setitem__(slice(at, at), data[at : at + chance.randrange(200)]),
                lambda at=at: data.__setitem__(slice(at, at), chance.randbytes(chance.randrange(20))),
                lambda at=at: data.__delitem__(slice(at, None)),
            ]
        )
        damage()
    return bytes(data)


def _damaged_frames(chance: random.Random) -> bytes:
    frames = right_answer(chance)
    for _ in range(chance.randrange(1, 4)):
        chance.choice([_drop, _repeat, _swap, _change_value, _change_value, _change_key, _change_body])(frames, chance)
    stream = encode(frames)
    if chance.random() < 0.3:
        whole = [encode([frame]) for frame in frames]
        text = chance.choice(EVIL_HEADERS)
        whole.insert(chance.randrange(len(whole) + 1), PREFIX.pack(len(text), 0) + text)
        stream = b"".join(whole)
    return stream


def _drop(frames: Frames, chance: random.Random) -> None:
    if frames:
        del frames[chance.randrange(len(frames))]


def _repeat(frames: Frames, chance: random.Random) -> None:
    if frames:
        frames.insert(chance.randrange(len(frames) + 1), chance.choice(frames))


def _swap(frames: Frames, chance: random.Random) -> None:
    if len(frames) > 1:
        a, b = chance.sample(range(len(frames)), 2)
        frames[a], frames[b] = frames[b], frames[a]


def _change_body(frames: Frames, chance: random.Random) -> None:
    if frames:
        at = chance.randrange(len(frames))
        frames[at] = (
            frames[at][0],
            chance.choice([b"", b"x", frames[at][1][:-1], frames[at][1] + b"y", b"z" * 21_000]),
        )


def _change_value(frames: Frames, chance: random.Random) -> None:
    _change(frames, chance, lambda holder, key: holder.__setitem__(key, chance.choice(EVIL_VALUES)))


def _change_key(frames: Frames, chance: random.Random) -> None:
    def change(holder: dict[str, Any], key: str) -> None:
        value = holder.pop(key)
        holder[chance.choice(["dir", "file", "data", "end", "hole", "missing", "path", "x", "part", "result"])] = value

    _change(frames, chance, change)


def _change(frames: Frames, chance: random.Random, how: Callable[[dict[str, Any], str], object]) -> None:
    """Pick an object somewhere in a header, and one of its keys."""
    if not frames:
        return
    at = chance.randrange(len(frames))
    holder = json.loads(json.dumps(frames[at][0]))
    frames[at] = (holder, frames[at][1])
    while True:
        inner = [value for value in holder.values() if isinstance(value, dict) and value]
        if not inner or chance.random() < 0.25:
            break
        holder = chance.choice(inner)
    if holder:
        how(holder, chance.choice(list(holder)))
