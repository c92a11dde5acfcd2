"""One connection to one machine's agent: calls with deadlines, replies that are believed only where they belong.

What comes back is hostile (`frames.py`), and so is when it comes. A machine that sends what is no frame, answers what
was not asked, sends more than was agreed, says nothing at all for `silence_timeout_s`, or leaves a call over its
deadline is killed, and every later use raises the same `MachineDied`. While a call waits the agent is pinged, so a
long command and a dead machine are told apart. What the host lets the machine wait for a processor is added to its
clocks: an overloaded host must not look like a machine that its student broke.

A call may be interrupted at any point by an exception of a signal handler (KeyboardInterrupt). Its reply is then
recognised by its id and dropped. For that, no byte may be lost between a system call and the line after it: results
of `send` and `recv` are stored by the same C call that made them (``extend(map(...))``), and each change of state is
one assignment.
"""

from __future__ import annotations

import collections
import select
import socket
import threading
import time
from collections.abc import Callable
from typing import Any, NoReturn, Protocol

from karotte_gym.errors import MachineDied
from karotte_gym.guest import wire
from karotte_gym.sandbox.contract import SLACK_S
from karotte_gym.sandbox.frames import Frame, FrameError, split
from karotte_gym.sandbox.pending_call import PendingCall

__all__ = ["Channel", "SideStream"]

READ_BYTES = 256 * 1024
PING_EVERY_S = 5.0
DELAY_FROM_S = 1.0  # into a call; before that, asking for the host's delay would cost more than it can tell
MIN_GRANT_S = 0.05  # less delay than this is every thread's lot
MAX_GRANT_S = 600.0  # a host that starves a machine for longer is out of order, which is an error and no zero
MAX_ABANDONED = 256  # calls that were interrupted and whose replies are still to come
MAX_WAITING_PARTS = 16  # parts that came while their reader did something else; a mebibyte each at most
_KINDS = 64  # longest error kind that is kept
_MESSAGE = 4000  # longest error message that is kept


class SideStream(Protocol):
    """Something else of the machine's that is read along while a call waits, e.g. its console."""

    def fileno(self) -> int: ...
    def drain(self) -> bool: ...


class Channel:
    """Owns the host's end of the agent's socket. One thread at a time, but for `close`."""

    def __init__(
        self,
        connection: socket.socket,
        *,
        silence_timeout_s: float,
        kill: Callable[[], object],
        side_streams: tuple[SideStream, ...] = (),
        host_delay: Callable[[], float] = lambda: 0.0,
        running_time: Callable[[], float] = lambda: 0.0,
    ):
        connection.setblocking(False)
        self._connection = connection
        self._silence_timeout_s = silence_timeout_s
        self._kill = kill
        self._host_delay = host_delay
        self._running_time = running_time
        self._sides = {stream.fileno(): stream for stream in side_streams}
        self._poll = select.poll()
        for fd in [connection.fileno(), *self._sides]:
            self._poll.register(fd, select.POLLIN)
        self._calls: dict[int, PendingCall] = {}
        self._abandoned: dict[int, PendingCall] = {}
        self._next_id = 1
        self._out: tuple[bytes, list[int]] = (b"", [])  # bytes to send, and how many went with each `send`
        self._chunks: collections.deque[bytes] = collections.deque()  # received, not yet split
        self._frames: collections.deque[Frame] = collections.deque()  # split, not yet handed out
        self._handled: Frame | None = None  # the last one that took effect: not again after an interruption
        self._heard = self._pinged = time.monotonic()
        self._received = self._heard  # as `_heard`, but no grant of time moves it
        self._dead: MachineDied | None = None
        self._in_use = threading.RLock()

    def call(self, method: str, params: dict[str, Any] | None = None, body: bytes = b"", *, timeout_s: float) -> Frame:
        """Ask and wait: the result object and its body. `timeout_s` is the agent's own bound; SLACK_S is added."""
        return self.start(method, params, body, timeout_s=timeout_s).result()

    def start(
        self,
        method: str,
        params: dict[str, Any] | None = None,
        body: bytes = b"",
        *,
        timeout_s: float,
        max_parts: int = 0,
        max_part_bytes: int = 0,
    ) -> PendingCall:
        """Queue a call whose answer comes in at most `max_parts` parts of together `max_part_bytes` bytes of body."""
        self._check_alive()
        identity = self._next_id
        self._next_id += 1
        frame = wire.encode({"id": identity, "method": method, "params": params or {}}, body)
        now = time.monotonic()
        call = PendingCall(self, identity, method, timeout_s, now + timeout_s + SLACK_S, max_parts, max_part_bytes)
        self._heard = self._pinged = now  # nobody listened since the last call, so its silence does not count
        self._calls[identity] = call
        self._queue(frame)
        return call

    def expect_hello(self, timeout_s: float) -> dict[str, Any]:
        """Wait for the unasked ``hello`` (id 0) of a machine that has just booted."""
        deadline = time.monotonic() + timeout_s
        self._heard = self._pinged = time.monotonic()
        hello = PendingCall(self, 0, "hello", timeout_s, deadline, 0, 0)
        self._calls[0] = hello
        return hello.result()[0]

    def wait(self, call: PendingCall) -> None:
        """Until another frame for `call` came. MachineDied at its deadline, at silence, at rubbish, at the end."""
        with self._in_use:
            seen_parts = call.seen_parts
            while call.seen_parts == seen_parts and call.last is None:
                if self._frames:
                    if self._frames[0] is not self._handled:
                        self._dispatch(self._frames[0])
                    self._frames.popleft()
                else:
                    self._turn(call)

    def abandon(self, call: PendingCall) -> None:
        """Nobody waits for `call` any more; what still comes for it is dropped."""
        if call.last is None and call.id:
            self._abandoned[call.id] = call
        self._calls.pop(call.id, None)
        if len(self._abandoned) > MAX_ABANDONED:
            self._abandoned = {key: one for key, one in self._abandoned.items() if one.last is None}
        call.waiting.clear()

    def flush(self, call: PendingCall) -> None:
        """Send `call` in full without waiting for an answer, which is dropped if it comes."""
        self.abandon(call)
        deadline = time.monotonic() + SLACK_S
        with self._in_use:
            while self._out[0] and time.monotonic() < deadline:
                self._send()

    def reject(self, message: str) -> NoReturn:
        """What came was a frame, but nothing that an honest agent would say: kill the machine and raise MachineDied."""
        self._die("protocol", message)

    def close(self) -> None:
        """Kill the machine and close the socket; idempotent, from any thread, also in the middle of a call."""
        if self._dead is None:
            self._dead = MachineDied("the machine was closed", cause="exited")
        self._kill()  # ends a `_turn` of another thread, which sees the end of the connection
        with self._in_use:
            self._connection.close()

    def _turn(self, call: PendingCall) -> None:
        """One round: send what can be sent, take what is there, watch the clocks."""
        self._check_alive()
        self._send()
        timeout_s = self._until_next_clock(call)
        events = self._poll.poll(timeout_s * 1000 + 1)
        for fd, _ in events:
            if fd in self._sides:
                self._drain(fd)
            else:
                self._receive()

    def _until_next_clock(self, call: PendingCall) -> float:
        now = time.monotonic()
        if call.delay_before_s is None and now >= call.asked + DELAY_FROM_S:
            call.ran_before_s, call.delay_before_s = self._running_time(), self._host_delay()
        if now >= min(call.deadline, self._heard + self._silence_timeout_s):
            if call.late and not self._grant(call):
                self._die(self._cause(call, now), self._reproach(call, now))
            call.late = not call.late  # were we the ones who slept? then the answer is there
            return 0.0
        every_s = min(PING_EVERY_S, self._silence_timeout_s / 3)
        if now >= self._pinged + every_s and call.id:
            self._ping(now)
        clocks = [call.deadline, self._heard + self._silence_timeout_s, self._pinged + every_s]
        clocks += [call.asked + DELAY_FROM_S] if call.delay_before_s is None else []
        return max(0.0, min(clocks) - now)

    def _grant(self, call: PendingCall) -> bool:
        """More time for what the host kept the machine from running since the call; False when that was nothing."""
        if call.delay_before_s is None:
            return False
        owed_s = min(self._host_delay() - call.delay_before_s, MAX_GRANT_S) - call.granted_s
        if owed_s < MIN_GRANT_S:
            return False
        call.granted_s += owed_s
        call.deadline += owed_s
        self._heard += owed_s
        return True

    def _cause(self, call: PendingCall, now: float) -> str:
        """ "starved" is an error of the host, "silent" the student's doing.

        However busy the host, an agent that answers pings is run. A call that it owes all the same is the host's fault only
        as long as the machine has not run for the time that the call was given.
        """
        if call.granted_s <= MAX_GRANT_S - MIN_GRANT_S:
            return "silent"
        answers_pings = now < self._received + self._silence_timeout_s
        return "silent" if answers_pings and self._running_time() - call.ran_before_s >= call.timeout_s else "starved"

    def _reproach(self, call: PendingCall, now: float) -> str:
        if now >= call.deadline:
            return f"the machine did not answer {call.method} in time"
        return f"the machine said nothing for {self._silence_timeout_s:.0f} s"

    def _ping(self, now: float) -> None:
        self._pinged = now
        if any(call.method == "ping" for call in self._abandoned.values()):
            return
        ping = PendingCall(self, self._next_id, "ping", 0.0, now, 0, 0)
        self._next_id += 1
        self._abandoned[ping.id] = ping  # its answer counts as a sign of life and is dropped
        self._queue(wire.encode({"id": ping.id, "method": "ping", "params": {}}))

    def _queue(self, frame: bytes) -> None:
        data, sent = self._out
        self._out = (data[sum(sent) :] + frame, [])
        self._send()

    def _send(self) -> None:
        data, sent = self._out
        if not data or self._dead is not None:
            return
        try:
            while (offset := sum(sent)) < len(data):
                sent.extend(map(self._connection.send, (memoryview(data)[offset : offset + READ_BYTES],)))
        except BlockingIOError:
            self._poll.modify(self._connection, select.POLLIN | select.POLLOUT)
            return
        except OSError:
            self._die("exited", "the machine ended")
        self._out = (b"", [])
        self._poll.modify(self._connection, select.POLLIN)

    def _receive(self) -> None:
        try:
            self._chunks.extend(map(self._connection.recv, (READ_BYTES,)))
        except BlockingIOError:
            return
        except OSError:
            self._die("exited", "the machine ended")
        if not self._chunks[-1]:
            self._die("exited", "the machine ended")
        try:
            frames, rest = split(b"".join(self._chunks))
        except FrameError as error:
            self._die("protocol", f"the machine sent {error}")
        self._chunks, self._frames = collections.deque([rest] if rest else []), collections.deque(frames)
        self._heard = self._received = time.monotonic()

    def _drain(self, fd: int) -> None:
        if not self._sides[fd].drain():
            self._poll.unregister(fd)
            del self._sides[fd]

    def _dispatch(self, frame: Frame) -> None:
        header, _ = frame
        identity = header.get("id")
        if type(identity) is not int:
            self._die("protocol", "the machine sent a reply without an id")
        call = self._calls.get(identity) or self._abandoned.get(identity)
        if call is None or call.last is not None:
            self._die("protocol", "the machine answered what was not asked")
        kinds = [key for key in ("part", "result", "error") if key in header]
        if len(kinds) != 1 or type(header[kinds[0]]) is not dict:
            self._die("protocol", f"the machine sent a reply to {call.method} that is none")
        if kinds == ["part"]:
            self._take_part(call, frame)
        else:
            self._take_last(call, frame)

    def _take_part(self, call: PendingCall, frame: Frame) -> None:
        part = (frame[0]["part"], frame[1])
        self._handled, call.seen_parts = frame, call.seen_parts + 1
        call.seen_bytes += len(part[1])
        if call.seen_parts > call.max_parts or call.seen_bytes > call.max_part_bytes:
            self._die("protocol", f"the machine answered {call.method} with more than was agreed")
        if call.id in self._calls:
            call.waiting.append(part)
            if len(call.waiting) > MAX_WAITING_PARTS:
                self._die("protocol", f"the machine answered {call.method} faster than it was read")

    def _take_last(self, call: PendingCall, frame: Frame) -> None:
        header, body = frame
        if "error" in header:
            kind, message = header["error"].get("kind"), header["error"].get("message")
            if type(kind) is not str or type(message) is not str or not kind.isascii():
                self._die("protocol", f"the machine refused {call.method} without a reason")
            message = message[:_MESSAGE].encode("utf-8", "replace").decode()
            header = {"error": {"kind": kind[:_KINDS], "message": message}}
        self._handled, call.last = frame, (header, body)
        self._abandoned.pop(call.id, None)
        if len(self._abandoned) > MAX_ABANDONED:
            self._die("silent", "the machine left too many interrupted calls unanswered")

    def _check_alive(self) -> None:
        if self._dead is not None:
            raise MachineDied(str(self._dead), cause=self._dead.cause)

    def _die(self, cause: str, message: str) -> NoReturn:
        if self._dead is None:
            self._dead = MachineDied(message, cause=cause)
        self._kill()
        raise MachineDied(str(self._dead), cause=self._dead.cause) from None
