"""The agent's loop over a real pair of sockets: frames in any pieces, several calls at once, and nothing that ends it."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NoReturn

import pytest

from karotte_gym.guest.agent import MAX_WORKERS, MODULES, Agent, collect_methods
from karotte_gym.guest.calls import Call, Machine, Refused
from karotte_gym.guest.port import BrokenStream, FrameReader, FrameWriter
from karotte_gym.guest.wire import MAX_BODY_BYTES, MAX_HEADER_BYTES, PREFIX, encode

Reply = tuple[dict[str, Any], bytes]


class Host:
    """The other end of the port."""

    def __init__(self, connection: socket.socket):
        self.connection = connection
        self.reader = FrameReader(connection.fileno())

    def ask(self, number: int, method: object, params: object = None, body: bytes = b"") -> None:
        self.connection.sendall(encode({"id": number, "method": method, "params": params or {}}, body))

    def answer(self) -> Reply:
        return self.reader.read()


@pytest.fixture
def host() -> Iterator[Host]:
    """An agent in a process of its own: its threads live as long as it does."""
    ours, theirs = socket.socketpair()
    pid = os.fork()
    if pid == 0:
        ours.close()
        _be_an_agent(theirs.fileno())
    theirs.close()
    with ours:
        other = Host(ours)
        header, _ = other.answer()
        assert header["id"] == 0 and header["result"]["agent"] == 1
        yield other
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def _be_an_agent(port: int) -> NoReturn:
    gate = threading.Event()

    def echo(_machine: Machine, call: Call) -> tuple[dict[str, Any], bytes]:
        return {"params": call.params}, call.body

    def wait(_machine: Machine, _call: Call) -> tuple[dict[str, Any], bytes]:
        gate.wait()
        return {}, b""

    def release(_machine: Machine, _call: Call) -> tuple[dict[str, Any], bytes]:
        gate.set()
        return {}, b""

    def refuse(_machine: Machine, _call: Call) -> tuple[dict[str, Any], bytes]:
        raise Refused("no-session", "there is none")

    def fail(_machine: Machine, _call: Call) -> tuple[dict[str, Any], bytes]:
        raise ZeroDivisionError("oh")

    def flood(_machine: Machine, call: Call) -> tuple[dict[str, Any], bytes]:
        for number in range(20):
            call.part({"number": number}, bytes(MAX_BODY_BYTES))
        return {"count": 20}, b""

    def too_much(_machine: Machine, _call: Call) -> tuple[dict[str, Any], bytes]:
        return {}, bytes(MAX_BODY_BYTES + 1)

    def tidy(_machine: Machine, call: Call) -> tuple[dict[str, Any], bytes]:
        call.afterwards += [lambda: 1 / 0, gate.wait]
        return {}, b""

    try:
        functions = (echo, wait, release, refuse, fail, flood, too_much, tidy)
        Agent(Machine(), {function.__name__: function for function in functions}, port).run()
    finally:
        os._exit(1)


def test_every_method_is_documented_and_none_is_claimed_twice() -> None:
    table = (Path(__file__).parents[3] / "docs/wire.md").read_text()
    documented = set(re.findall(r"^\| `([a-z_]+)` \|", table, re.MULTILINE))
    assert documented - {"ping", "hello"} == set(collect_methods())  # these two are the agent's own
    assert len(MODULES) == len(set(MODULES))


def test_a_frame_that_comes_byte_by_byte_is_a_frame(host: Host) -> None:
    for byte in encode({"id": 7, "method": "echo", "params": {"a": 1}}, b"body"):
        host.connection.sendall(bytes([byte]))
    assert host.answer() == ({"id": 7, "result": {"params": {"a": 1}}}, b"body")


def test_two_frames_in_one_piece_are_two_calls(host: Host) -> None:
    host.connection.sendall(b"".join(encode({"id": n, "method": "echo", "params": {}}) for n in (1, 2)))
    assert {host.answer()[0]["id"], host.answer()[0]["id"]} == {1, 2}


def test_a_ping_is_answered_while_every_call_is_stuck(host: Host) -> None:
    for number in range(1, 71):  # more than there may be workers
        host.ask(number, "wait")
    host.ask(100, "ping")
    assert host.answer() == ({"id": 100, "result": {}}, b"")


def test_calls_overlap_and_are_answered_by_their_own_number(host: Host) -> None:
    host.ask(1, "wait")
    host.ask(2, "release")
    assert {host.answer()[0]["id"] for _ in range(2)} == {1, 2}


@pytest.mark.parametrize(
    ("method", "kind"),
    [("refuse", "no-session"), ("fail", "internal"), ("nothing", "unknown-method"), (5, "bad-params"),
     ("too_much", "internal")],
)  # fmt: skip
def test_what_goes_wrong_is_an_answer_and_the_agent_goes_on(host: Host, method: object, kind: str) -> None:
    host.ask(3, method)
    assert host.answer()[0]["error"]["kind"] == kind
    host.ask(4, "echo")
    assert host.answer()[0] == {"id": 4, "result": {"params": {}}}


def test_what_a_handler_does_afterwards_keeps_no_answer_waiting(host: Host) -> None:
    for number in range(MAX_WORKERS - 1):
        host.ask(number, "tidy")
        assert host.answer()[0] == {"id": number, "result": {}}
    host.ask(100, "release")
    host.ask(101, "echo", {"a": 1})
    assert {host.answer()[0]["id"] for _ in range(2)} == {100, 101}


def test_parameters_that_are_no_object_are_refused(host: Host) -> None:
    host.connection.sendall(encode({"id": 5, "method": "echo", "params": [1]}))
    assert host.answer()[0]["error"]["kind"] == "bad-params"


def test_a_host_that_reads_late_gets_every_part_and_its_pings(host: Host) -> None:
    """Twenty megabytes do not fit into any buffer: the writer has to wait, and the reader must not wait with it."""
    host.ask(1, "flood")
    host.ask(2, "ping")
    time.sleep(0.2)  # long enough for the buffers to fill; the outcome does not depend on it
    seen: list[Reply] = [host.answer() for _ in range(22)]
    parts = [header["part"]["number"] for header, _ in seen if "part" in header]
    assert parts == list(range(20))
    assert {"id": 2, "result": {}} in [header for header, _ in seen]


@pytest.mark.parametrize(
    "data",
    [
        PREFIX.pack(MAX_HEADER_BYTES + 1, 0),
        PREFIX.pack(2, MAX_BODY_BYTES + 1),
        PREFIX.pack(4, 0) + b"null",
        PREFIX.pack(3, 0) + b"{]}",
        PREFIX.pack(200_000, 0) + b"[" * 200_000,
    ],
)
def test_bytes_that_are_no_frame_end_the_stream(data: bytes) -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        threading.Thread(target=ours.sendall, args=(data,)).start()
        with pytest.raises(BrokenStream):
            FrameReader(theirs.fileno()).read()


def test_what_a_lost_host_left_unfinished_is_void(monkeypatch: pytest.MonkeyPatch) -> None:
    """After a restore another process is at the other end; the port says so by a read of nothing."""
    whole = encode({"id": 1, "method": "ping", "params": {}})
    chunks = iter([whole[:7], b"", whole])

    def readv(_fd: int, places: list[memoryview]) -> int:
        chunk = next(chunks)
        places[0][: len(chunk)] = chunk
        return len(chunk)

    monkeypatch.setattr(os, "readv", readv)
    assert FrameReader(-1).read()[0]["id"] == 1


def test_frames_of_many_threads_never_mix() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        writer, reader = FrameWriter(theirs.fileno()), FrameReader(ours.fileno())
        bodies = [bytes([n]) * (50_000 + n) for n in range(8)]

        def work(number: int) -> None:
            for count in range(20):
                send = writer.write_soon if count % 5 == 0 else writer.write
                send(encode({"id": number}, bodies[number]))

        threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for _ in range(160):
            header, body = reader.read()
            assert body == bodies[header["id"]]
        for thread in threads:
            thread.join()


def test_an_answer_is_plain_json() -> None:
    with pytest.raises(ValueError, match="JSON"):
        encode({"id": 1, "result": {"value": float("nan")}})
    text = encode({"id": 1, "result": {"value": "\ud800"}})
    assert json.loads(text[PREFIX.size :])["result"]["value"] == "\ud800"
