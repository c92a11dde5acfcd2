"""A call that was sent to a machine: what has come of it, and how long it may still take. `channel` makes and fills them."""

from __future__ import annotations

import collections
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from karotte_gym.errors import CallRefused
from karotte_gym.sandbox.frames import Frame

if TYPE_CHECKING:
    from karotte_gym.sandbox.channel import Channel

__all__ = ["PendingCall"]


@dataclass(eq=False)
class PendingCall:
    """A call that was sent. `parts` yields its intermediate frames, `result` its last one."""

    channel: Channel
    id: int
    method: str
    timeout_s: float  # what the agent itself was given for it
    deadline: float  # monotonic
    max_parts: int
    max_part_bytes: int
    asked: float = field(default_factory=time.monotonic)
    delay_before_s: float | None = None  # the host's, when the call was a moment old
    ran_before_s: float = 0.0  # the machine's running time at that moment
    granted_s: float = 0.0  # of the deadline, for the host's delay
    waiting: collections.deque[Frame] = field(default_factory=collections.deque)
    seen_parts: int = 0
    seen_bytes: int = 0
    last: Frame | None = None
    late: bool = False  # its time is over, but what lies in the socket by now is still looked at

    def parts(self) -> Iterator[Frame]:
        """Each part's object and body as they come; ends when the last frame came. Leaving early abandons the call.

        CallRefused when the last frame says no.
        """
        try:
            while True:
                while self.waiting:
                    yield self.waiting.popleft()
                if self.last is not None:
                    self._accept()
                    return
                self.channel.wait(self)
        finally:
            self.channel.abandon(self)

    def result(self) -> Frame:
        """The result object and body. CallRefused when the agent said no, MachineDied when it did not say anything."""
        try:
            while self.last is None:
                self.channel.wait(self)
                self.waiting.clear()
        finally:
            self.channel.abandon(self)
        return self._accept()

    def _accept(self) -> Frame:
        assert self.last is not None
        header, body = self.last
        if "result" in header:
            return header["result"], body
        raise CallRefused(header["error"]["kind"], header["error"]["message"])
