"""One asyncio loop in a thread of its own for all requests to providers, so that a call can be ended for certain.

A blocking request that hangs, or trickles a byte a second, can't be ended from outside; a task can. Episodes run in
threads and share this loop, which also lets them share connections. A forked child gets a new one.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import os
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

from karotte_gym.models.errors import Stopped
from karotte_gym.models.stopping import StopSignal

__all__ = ["run"]

T = TypeVar("T")
_lock = threading.Lock()
_current: tuple[int, asyncio.AbstractEventLoop] | None = None


def run(work: Coroutine[Any, Any, T], *, timeout_s: float, stop: StopSignal) -> T:
    """The result of `work`. TimeoutError after `timeout_s`, Stopped once `stop` is set; either way it is cancelled."""
    future = asyncio.run_coroutine_threadsafe(asyncio.wait_for(work, timeout_s), _loop())
    try:
        with stop.calling(future.cancel):
            return future.result()
    except concurrent.futures.CancelledError:
        raise Stopped from None
    finally:
        future.cancel()


def _loop() -> asyncio.AbstractEventLoop:
    global _current
    with _lock:
        if _current is None or _current[0] != os.getpid():
            loop = asyncio.new_event_loop()
            threading.Thread(target=loop.run_forever, name="karotte-models", daemon=True).start()
            _current = (os.getpid(), loop)
        return _current[1]


def _forget_lock_after_fork() -> None:
    """The lock may have been held by a thread that does not exist in the child."""
    global _lock
    _lock = threading.Lock()


os.register_at_fork(after_in_child=_forget_lock_after_fork)
