"""Ctrl-C and SIGTERM as a request to stop: episodes end, transcripts and records are written. A second Ctrl-C insists."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Callable, Iterator
from types import FrameType

from karotte_gym.models.stopping import StopSignal

__all__ = ["Caught", "interrupted_by_signals", "stopping_on_signals"]


class Caught:
    """Which signal came, if one did."""

    number: int | None = None

    @property
    def exit_code(self) -> int | None:
        """As a shell reports a process that ended by it: 130 or 143."""
        return None if self.number is None else 128 + self.number


@contextlib.contextmanager
def stopping_on_signals(stop: StopSignal) -> Iterator[Caught]:
    """In the main thread: SIGINT and SIGTERM set `stop`; the second SIGINT raises KeyboardInterrupt."""
    caught = Caught()

    def handle(number: int, frame: FrameType | None) -> None:
        if caught.number is not None and number == signal.SIGINT:
            signal.default_int_handler(number, frame)
        caught.number = number
        stop.set()

    with _handled_by(handle):
        yield caught


@contextlib.contextmanager
def interrupted_by_signals() -> Iterator[Caught]:
    """In the main thread, where nobody looks at a `StopSignal`: both raise KeyboardInterrupt at once, in any call.

    A second SIGTERM does not, for what the first one began is under way.
    """
    caught = Caught()

    def handle(number: int, frame: FrameType | None) -> None:
        if caught.number is not None and number == signal.SIGTERM:
            return
        caught.number = number if caught.number is None else caught.number
        signal.default_int_handler(number, frame)

    with _handled_by(handle):
        yield caught


@contextlib.contextmanager
def _handled_by(handle: Callable[[int, FrameType | None], None]) -> Iterator[None]:
    before = {number: signal.signal(number, handle) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
