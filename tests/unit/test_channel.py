"""The channel believes a machine only where it must: hostile frames, silence, unasked replies, interruptions."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from growth import TOO_MUCH, growth
from hypothesis import given, settings
from hypothesis import strategies as st

from karotte_gym.blame import misbehavior_of
from karotte_gym.errors import CallRefused, MachineDied, MachineError
from karotte_gym.guest.wire import MAX_BODY_BYTES, MAX_HEADER_BYTES, PREFIX, encode
from karotte_gym.sandbox import channel as channel_module
from karotte_gym.sandbox.channel import Channel
from karotte_gym.sandbox.frames import FrameError, split
from karotte_gym.sandbox.host_delay import host_delay_s, running_time_s

pytestmark = pytest.mark.timeout(120)


class Peer:
    """The machine's end of the socket, played by the test."""

    def __init__(self, end: socket.socket):
        self.end = end
        self.end.settimeout(20)
        self._buffer = b""

    def read(self, size: int) -> bytes:
        while len(self._buffer) < size:
            data = self.end.recv(65536)
            if not data:
                raise EOFError
            self._buffer += data
        data, self._buffer = self._buffer[:size], self._buffer[size:]
        return data

    def request(self) -> tuple[dict[str, Any], bytes]:
        header_bytes, body_bytes = PREFIX.unpack(self.read(PREFIX.size))
        return json.loads(self.read(header_bytes)), self.read(body_bytes)

    def send(self, header: dict[str, Any], body: bytes = b"") -> None:
        self.end.sendall(encode(header, body))


class Setup:
    def __init__(
        self,
        silence_timeout_s: float = 20.0,
        host_delay: Callable[[], float] = lambda: 0.0,
        running_time: Callable[[], float] = lambda: 0.0,
    ):
        ours, theirs = socket.socketpair()
        self.killed = threading.Event()
        self.peer = Peer(theirs)
        self.channel = Channel(
            ours, silence_timeout_s=silence_timeout_s, kill=self._kill, host_delay=host_delay, running_time=running_time
        )

    def _kill(self) -> None:
        self.killed.set()
        with contextlib.suppress(OSError):  # the test may have closed it, as a machine that ended by itself
            self.peer.end.shutdown(socket.SHUT_RDWR)

    def play(self, script: Callable[[Peer], None]) -> None:
        def run() -> None:
            try:
                script(self.peer)
            except (EOFError, OSError):
                return  # the channel ended the machine, as a test of a hostile one wants

        threading.Thread(target=run, daemon=True).start()

    def dies(self, cause: str, act: Callable[[], Any] | None = None) -> None:
        with pytest.raises(MachineDied) as caught:
            (act or (lambda: self.channel.call("bash", timeout_s=10)))()
        assert caught.value.cause == cause
        assert self.killed.is_set()
        with pytest.raises(MachineDied) as again:
            self.channel.call("ping", timeout_s=1)
        assert again.value.cause == cause


@pytest.fixture
def setup() -> Iterator[Setup]:
    made = Setup()
    yield made
    made.channel.close()
    made.peer.end.close()


def answer(**fields: Any) -> Callable[[Peer], None]:
    """A machine that answers the first request with these fields beside the right id."""

    def script(peer: Peer) -> None:
        peer.send({"id": peer.request()[0]["id"], **fields})

    return script


def test_a_result_and_its_body_come_back(setup: Setup) -> None:
    def script(peer: Peer) -> None:
        request, body = peer.request()
        peer.send({"id": request["id"], "result": {"said": request["params"]}}, body[::-1])

    setup.play(script)
    assert setup.channel.call("run", {"a": [1, "é"]}, b"abc", timeout_s=30) == ({"said": {"a": [1, "é"]}}, b"cba")


def test_a_refusal_is_raised_with_its_kind(setup: Setup) -> None:
    setup.play(answer(error={"kind": "no-session", "message": "start one \ud800"}))
    with pytest.raises(CallRefused) as caught:
        setup.channel.call("bash", timeout_s=30)
    assert caught.value.kind == "no-session"
    str(caught.value).encode()  # a lone surrogate could be written nowhere


def test_parts_are_streamed_in_order(setup: Setup) -> None:
    def script(peer: Peer) -> None:
        identity = peer.request()[0]["id"]
        for number in range(300):
            peer.send({"id": identity, "part": {"n": number}}, bytes(5000))
        peer.send({"id": identity, "result": {"count": 300}})

    setup.play(script)
    call = setup.channel.start("collect", timeout_s=30, max_parts=300, max_part_bytes=300 * 5000)
    assert [part["n"] for part, _ in call.parts()] == list(range(300))
    assert call.result()[0] == {"count": 300}


def test_a_refusal_in_the_middle_of_parts_reaches_their_reader(setup: Setup) -> None:
    def script(peer: Peer) -> None:
        identity = peer.request()[0]["id"]
        peer.send({"id": identity, "part": {}})
        peer.send({"id": identity, "error": {"kind": "custody", "message": "a link"}})

    setup.play(script)
    with pytest.raises(CallRefused):
        list(setup.channel.start("collect", timeout_s=30, max_parts=9).parts())


@pytest.mark.parametrize(
    "bytes_sent",
    [
        PREFIX.pack(MAX_HEADER_BYTES + 1, 0),
        PREFIX.pack(0xFFFFFFFF, 0xFFFFFFFF),
        PREFIX.pack(2, MAX_BODY_BYTES + 1),
        PREFIX.pack(0, 0),
        PREFIX.pack(4, 0) + b"nope",
        PREFIX.pack(2, 0) + b"[]",
        b"GET / HTTP/1.1\r\n\r\n",
    ],
)
def test_bytes_that_are_no_frame_kill_the_machine(setup: Setup, bytes_sent: bytes) -> None:
    setup.play(lambda peer: peer.end.sendall(bytes_sent))
    setup.dies("protocol")


def header_frame(text: bytes) -> bytes:
    return PREFIX.pack(len(text), 0) + text


@pytest.mark.parametrize(
    "text",
    [
        b'{"id":1,"id":2,"result":{}}',
        b'{"id":1,"result":{"a":NaN}}',
        b'{"id":1,"result":{"a":-Infinity}}',
        b'{"id":1,"result":{"a":' + b"9" * 5000 + b"}}",
        b'{"id":1,"result":{"a":' + b"[" * 17 + b"]" * 17 + b"}}",
        b"[" * 200_000,
        b'{"a":' * 40_000,
        b'{"id":1,"result":{}} trailing',
        b'{"id":1,"result":"\xff\xfe"}',
        b'{"id":1',
    ],
)
def test_headers_that_are_no_plain_object_kill_the_machine(setup: Setup, text: bytes) -> None:
    setup.play(lambda peer: peer.end.sendall(header_frame(text)))
    setup.dies("protocol")


@pytest.mark.parametrize("piece", [b'"', b'\\"', b'"\\', b"\\"])
def test_a_text_without_an_end_costs_no_more_than_its_length(piece: bytes) -> None:
    """A reader that looks behind each of its quotes to the end would keep the interpreter for minutes."""

    def read(count: int) -> None:
        header = b"{" + b"[]," * 17 + b'"' + piece * count
        with pytest.raises(FrameError):
            split(PREFIX.pack(len(header), 0) + header)

    assert growth(read, 2000) < TOO_MUCH


def test_brackets_inside_strings_are_no_nesting() -> None:
    text = json.dumps({"id": 1, "result": {"path": '[{"\\' * 100}}).encode()
    frames, rest = split(header_frame(text))
    assert frames[0][0]["result"]["path"].startswith("[{") and rest == b""


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"result": {}, "part": {}},
        {"result": []},
        {"error": {"kind": 7, "message": "x"}},
        {"error": {"kind": "x"}},
        {"part": {}},  # none was agreed
    ],
)
def test_replies_of_the_wrong_shape_kill_the_machine(setup: Setup, fields: dict[str, Any]) -> None:
    setup.play(answer(**fields))
    setup.dies("protocol")


@pytest.mark.parametrize("identity", [0, -1, 99, True, 1.0, "1", None, [1]])
def test_an_answer_to_what_was_not_asked_kills_the_machine(setup: Setup, identity: object) -> None:
    setup.play(lambda peer: (peer.request(), peer.send({"id": identity, "result": {}}))[0])
    setup.dies("protocol")


def test_a_second_answer_kills_the_machine(setup: Setup) -> None:
    def script(peer: Peer) -> None:
        identity = peer.request()[0]["id"]
        peer.send({"id": identity, "result": {}})
        peer.request()
        peer.send({"id": identity, "result": {}})

    setup.play(script)
    setup.channel.call("first", timeout_s=30)
    setup.dies("protocol")


def test_more_bytes_than_agreed_kill_the_machine(setup: Setup) -> None:
    def script(peer: Peer) -> None:
        identity = peer.request()[0]["id"]
        for _ in range(10):
            peer.send({"id": identity, "part": {}}, bytes(1000))

    setup.play(script)
    call = setup.channel.start("get_file", timeout_s=30, max_parts=100, max_part_bytes=2500)
    setup.dies("protocol", lambda: list(call.parts()))


def test_the_end_of_the_machine_is_seen_at_once(setup: Setup) -> None:
    setup.play(lambda peer: (peer.request(), peer.end.close())[0])
    start = time.monotonic()
    setup.dies("exited", lambda: setup.channel.call("bash", timeout_s=50))
    assert time.monotonic() - start < 20


def test_a_call_over_its_deadline_kills_a_machine_that_still_answers_pings(setup: Setup, monkeypatch) -> None:
    monkeypatch.setattr(channel_module, "PING_EVERY_S", 0.05)
    monkeypatch.setattr(channel_module, "SLACK_S", 0.2)
    pings = []

    def script(peer: Peer) -> None:
        while True:
            request, _ = peer.request()
            if request["method"] == "ping":
                pings.append(request["id"])
                peer.send({"id": request["id"], "result": {}})

    setup.play(script)
    setup.dies("silent", lambda: setup.channel.call("bash", timeout_s=1.0))
    assert pings


def test_a_silent_machine_is_killed_long_before_the_deadline() -> None:
    made = Setup(silence_timeout_s=0.4)
    start = time.monotonic()
    made.dies("silent", lambda: made.channel.call("bash", timeout_s=600))
    assert time.monotonic() - start < 20


def test_pongs_keep_a_long_call_alive() -> None:
    made = Setup(silence_timeout_s=2.0)

    def script(peer: Peer) -> None:
        first, _ = peer.request()
        for _ in range(6):  # a third of the silence each: together far over it
            request, _ = peer.request()
            peer.send({"id": request["id"], "result": {}})
        peer.send({"id": first["id"], "result": {"slow": True}})

    made.play(script)
    assert made.channel.call("bash", timeout_s=20)[0] == {"slow": True}


def test_our_own_sleep_is_not_held_against_the_machine(setup: Setup, monkeypatch) -> None:
    monkeypatch.setattr(channel_module, "SLACK_S", 0.0)
    call = setup.channel.start("bash", timeout_s=0.01)
    identity = setup.peer.request()[0]["id"]
    setup.peer.send({"id": identity, "result": {"in": "time"}})
    while time.monotonic() <= call.deadline:  # as if the trainer had been stopped with the answer in the socket
        time.sleep(0.01)
    assert call.result()[0] == {"in": "time"}


def test_what_the_host_keeps_the_machine_waiting_is_given_again(monkeypatch) -> None:
    monkeypatch.setattr(channel_module, "SLACK_S", 0.0)
    monkeypatch.setattr(channel_module, "DELAY_FROM_S", 0.05)
    asked_of: list[float] = []  # the count before, and once the deadline was missed; it stays there
    missed = threading.Event()

    def host_delay() -> float:
        asked_of.append(0.0)
        if len(asked_of) > 1:
            missed.set()
        return 10.0 if len(asked_of) == 1 else 30.0

    def late(peer: Peer) -> None:
        first, _ = peer.request()
        assert missed.wait(30)
        peer.send({"id": first["id"], "result": {"late": True}})

    made = Setup(host_delay=host_delay)
    made.play(late)
    assert made.channel.call("bash", timeout_s=0.3)[0] == {"late": True} and missed.is_set()
    strict = Setup(host_delay=lambda: 10.0)  # and there no answer comes
    strict.dies("silent", lambda: strict.channel.call("bash", timeout_s=0.3))


def test_a_machine_that_the_host_never_runs_is_starved_and_not_silent(monkeypatch) -> None:
    monkeypatch.setattr(channel_module, "SLACK_S", 0.0)
    monkeypatch.setattr(channel_module, "DELAY_FROM_S", 0.05)
    monkeypatch.setattr(channel_module, "MAX_GRANT_S", 0.5)
    made = Setup(host_delay=time.monotonic)
    made.dies("starved", lambda: made.channel.call("bash", timeout_s=0.2))
    with pytest.raises(MachineError, match="too little processor time"):
        misbehavior_of(MachineDied("late", cause="starved"))


@pytest.mark.parametrize(
    ("answers_pings", "runs", "cause"),
    [
        (True, True, "silent"),  # it has the processor and leaves one call hanging
        (True, False, "starved"),  # enough for a ping and not for the call
        (False, True, "starved"),  # the grant is used up and nobody knows what it ran
        (False, False, "starved"),
    ],
)
def test_a_call_that_hangs_on_a_busy_host_is_the_students_doing_once_the_machine_ran_for_it(
    monkeypatch: pytest.MonkeyPatch, answers_pings: bool, runs: bool, cause: str
) -> None:
    """A call that the student can make hang must not be an error because the host is busy, too: it would lose no episode."""
    for name, value in (("SLACK_S", 0.0), ("DELAY_FROM_S", 0.02), ("MAX_GRANT_S", 0.8), ("PING_EVERY_S", 0.05)):
        monkeypatch.setattr(channel_module, name, value)
    made = Setup(
        silence_timeout_s=20.0 if answers_pings else 0.5,  # our own thread's answers may be late as well
        host_delay=time.monotonic,
        running_time=time.monotonic if runs else lambda: 7.0,
    )

    def script(peer: Peer) -> None:
        while True:
            request, _ = peer.request()
            if request["method"] == "ping" and answers_pings:
                peer.send({"id": request["id"], "result": {}})

    made.play(script)
    made.dies(cause, lambda: made.channel.call("bash", timeout_s=0.3))


def test_the_host_counts_what_a_process_waits_for_a_processor() -> None:
    spin = [sys.executable, "-c", "while True: pass"]
    idle = subprocess.Popen(["/bin/sh", "-c", "echo; read x"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert idle.stdout is not None
    idle.stdout.readline()  # what it waits for at its start is over, but for the way into `read`
    crowd: list[subprocess.Popen[bytes]] = []
    try:
        while Path(f"/proc/{idle.pid}/stat").read_text().rpartition(")")[2].split()[0] != "S":
            time.sleep(0.01)
        idle_before_s, idle_ran_s = host_delay_s(idle.pid), running_time_s(idle.pid)
        crowd.extend(subprocess.Popen(spin) for _ in range(3 * len(os.sched_getaffinity(0))))
        deadline = time.monotonic() + 60
        while min(count(crowd[0].pid) for count in (host_delay_s, running_time_s)) < 0.5 and time.monotonic() < deadline:
            time.sleep(0.1)
        assert host_delay_s(crowd[0].pid) >= 0.5
        assert host_delay_s(idle.pid) - idle_before_s < 0.1
        assert running_time_s(crowd[0].pid) >= 0.5
        assert running_time_s(idle.pid) - idle_ran_s < 0.1
    finally:
        for process in (*crowd, idle):
            with process:
                process.kill()
    assert host_delay_s(crowd[0].pid) == 0.0  # gone


def test_an_abandoned_reply_is_not_attributed_to_the_next_call(setup: Setup) -> None:
    def script(peer: Peer) -> None:
        first, second = peer.request()[0]["id"], peer.request()[0]["id"]
        peer.send({"id": first, "result": {"of": "first"}}, b"old")
        peer.send({"id": second, "result": {"of": "second"}}, b"new")

    call = setup.channel.start("bash", timeout_s=30)
    setup.channel.abandon(call)
    setup.play(script)
    assert setup.channel.call("bash", timeout_s=30) == ({"of": "second"}, b"new")


def test_neither_side_blocks_when_both_write_first(setup: Setup) -> None:
    chatter = 4 * MAX_BODY_BYTES

    def script(peer: Peer) -> None:
        identity = peer.request()[0]["id"]
        for _ in range(chatter // MAX_BODY_BYTES):  # before a byte of the second call is read
            peer.send({"id": identity, "part": {}}, bytes(MAX_BODY_BYTES))
        peer.send({"id": identity, "result": {}})
        request, body = peer.request()
        peer.send({"id": request["id"], "result": {"got": len(body)}})

    streamed = setup.channel.start("collect", timeout_s=20, max_parts=10, max_part_bytes=chatter)
    setup.play(script)
    assert setup.channel.call("put", body=bytes(MAX_BODY_BYTES), timeout_s=20)[0] == {"got": MAX_BODY_BYTES}
    assert sum(len(body) for _, body in streamed.parts()) == chatter


def test_close_from_another_thread_ends_a_waiting_call(setup: Setup) -> None:
    setup.peer.end.settimeout(20)
    threading.Timer(0.1, setup.channel.close).start()
    with pytest.raises(MachineDied) as caught:
        setup.channel.call("bash", timeout_s=50)
    assert caught.value.cause == "exited"


def test_a_call_can_be_interrupted_anywhere_and_the_next_one_works(setup: Setup) -> None:
    """Signals rain on echoing calls; whatever call they hit, each answered call must have got its own answer."""

    def script(peer: Peer) -> None:
        while True:
            request, body = peer.request()
            peer.send({"id": request["id"], "result": {"n": request["params"].get("n")}}, body)

    class Interrupt(Exception):
        pass

    armed = [False]

    def raise_interrupt(_signal: int, _frame: object) -> None:
        if armed[0]:  # a signal that came before its timer was stopped may be heard later
            raise Interrupt

    setup.play(script)
    before = signal.signal(signal.SIGALRM, raise_interrupt)
    interrupted = 0
    try:
        for number in range(3000):
            try:
                try:
                    armed[0] = True
                    signal.setitimer(signal.ITIMER_REAL, 0.00001 + (number % 40) * 0.00001)
                    body = number.to_bytes(4, "big") * 1000
                    assert setup.channel.call("echo", {"n": number}, body, timeout_s=10) == ({"n": number}, body)
                finally:
                    armed[0] = False
            except Interrupt:
                interrupted += 1
            armed[0] = False
            signal.setitimer(signal.ITIMER_REAL, 0)
            if number % 50 == 0:  # the answers to the interrupted ones are behind this one
                assert setup.channel.call("echo", {"n": number}, timeout_s=10) == ({"n": number}, b"")
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert interrupted > 100
    assert setup.channel.call("echo", {"n": -1}, timeout_s=10) == ({"n": -1}, b"")


HEADERS = st.dictionaries(st.text(), st.integers(-(2**63), 2**63))


@settings(max_examples=400)
@given(st.lists(st.tuples(st.dictionaries(st.text(), st.integers(-(2**63), 2**63)), st.binary(max_size=500))), st.data())
def test_frames_survive_any_cut(frames: list[tuple[dict[str, int], bytes]], data: st.DataObject) -> None:
    stream = b"".join(encode(header, body) for header, body in frames)
    cut = data.draw(st.integers(0, len(stream)))
    first, rest = split(stream[:cut])
    second, nothing = split(rest + stream[cut:])
    assert first + second == frames and nothing == b""


@settings(max_examples=600)
@given(st.binary(max_size=2000))
def test_any_bytes_are_frames_or_a_frame_error(data: bytes) -> None:
    for stream in (data, header_frame(data), struct.pack(">II", len(data) % 64, 0) + data):
        try:
            frames, rest = split(stream)
        except FrameError:
            continue
        assert stream.endswith(rest) and all(type(header) is dict for header, _ in frames)
