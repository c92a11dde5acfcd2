"""Questions that may take long: answered, given up, and not asked again while the last one is not through."""

from __future__ import annotations

import threading

import pytest

from karotte_gym.guest.aside import Aside, Stuck


def test_an_answer_and_an_error_come_back() -> None:
    aside = Aside()
    assert aside.ask(threading.current_thread, 30).name == "aside"
    assert aside.ask(threading.current_thread, 30) is aside.ask(threading.current_thread, 30), "one thread for all"
    with pytest.raises(ZeroDivisionError):
        aside.ask(lambda: 1 // 0, 30)
    aside.close()


def test_while_one_question_is_not_through_no_other_is_asked() -> None:
    aside, go, asked = Aside(), threading.Event(), []
    with pytest.raises(Stuck):
        aside.ask(lambda: go.wait(60), 0.01)
    with pytest.raises(Stuck):
        aside.ask(lambda: asked.append(1), 60)
    go.set()
    assert aside._last is not None and aside._last.done.wait(60)
    aside.ask(lambda: asked.append(2), 60)
    assert asked == [2]
    aside.close()
    aside._thread.join(60)
    assert not aside._thread.is_alive()
