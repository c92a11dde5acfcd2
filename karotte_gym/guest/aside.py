"""Asks the kernel in another thread what may have to wait for a lock of the student's: `Aside`.

What a process's memory is, or which call it sleeps in, the kernel tells when nobody holds that process's locks. A process
that forks holds one, waits in turn for those of others that share its libraries, and these may wait for the processor
among a thousand: seconds, in which no signal helps.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from typing import Any, TypeVar

from . import syscalls

__all__ = ["Aside", "Stuck", "start_thread"]

_Answer = TypeVar("_Answer")


def start_thread(run: Callable[[], object], name: str) -> threading.Thread:
    """A thread as important as its starter: one that is less so may hold the interpreter and not get the processor."""
    important = syscalls.is_important()

    def begin() -> None:
        if important:
            syscalls.become_important()
        run()

    thread = threading.Thread(target=begin, name=name, daemon=True)
    thread.start()
    return thread


class Stuck(Exception):
    """There is no answer yet. The question is not withdrawn: what it does it may do later."""


class _Question:
    def __init__(self, ask: Callable[[], Any]):
        self._ask = ask
        self._answer: Any = None
        self._error: BaseException | None = None
        self.done = threading.Event()

    def run(self) -> None:
        try:
            self._answer = self._ask()
        except BaseException as error:  # handed over to the thread that waits
            self._error = error
        self.done.set()

    def result(self) -> Any:
        if self._error is not None:
            raise self._error
        return self._answer


class Aside:
    """One thread, there from the beginning: to start one among a thousand takes seconds. Ask from one thread at a time."""

    def __init__(self) -> None:
        self._questions: queue.SimpleQueue[_Question | None] = queue.SimpleQueue()
        self._last: _Question | None = None
        self._thread = start_thread(self._run, "aside")

    def ask(self, ask: Callable[[], _Answer], timeout_s: float) -> _Answer:
        """What `ask` returns or raises; Stuck when it takes longer, and at once while an earlier one still does."""
        if self._last is not None and not self._last.done.is_set():
            raise Stuck
        question = self._last = _Question(ask)
        self._questions.put(question)
        if not question.done.wait(timeout_s):
            raise Stuck
        answer: _Answer = question.result()
        return answer

    def close(self) -> None:
        """The thread ends when it can."""
        self._questions.put(None)

    def _run(self) -> None:
        while (question := self._questions.get()) is not None:
            question.run()
