"""`StopSignal`: one switch that ends waits, calls to a provider and the start of further turns, from any thread."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator

__all__ = ["StopSignal"]


class StopSignal:
    """Like an event, and it also calls back, so that a request in flight can be cancelled without anybody polling."""

    def __init__(self) -> None:
        self._event = threading.Event()
        self._lock = threading.RLock()  # a signal handler may run `set` in a thread that holds it
        self._callbacks: list[Callable[[], object]] = []

    def set(self) -> None:
        """Stop. Each callback runs once, in this thread."""
        with self._lock:
            self._event.set()
            callbacks, self._callbacks = self._callbacks, []
        for callback in callbacks:
            callback()

    def is_set(self) -> bool:
        """Whether it is time to stop."""
        return self._event.is_set()

    def wait(self, seconds: float) -> bool:
        """Sleep so long at most; True when stopped."""
        return self._event.wait(seconds)

    @contextlib.contextmanager
    def calling(self, callback: Callable[[], object]) -> Iterator[None]:
        """While inside, `callback` is called when the signal is set (at once if it is already)."""
        with self._lock:
            late = self._event.is_set()
            if not late:
                self._callbacks.append(callback)
        if late:
            callback()
        try:
            yield
        finally:
            with self._lock:
                if callback in self._callbacks:
                    self._callbacks.remove(callback)
