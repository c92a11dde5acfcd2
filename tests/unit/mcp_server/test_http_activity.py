"""What counts as silence over HTTP, with requests as a server hands them on."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

pytest.importorskip("mcp", reason="needs the extra karotte-gym[mcp]")
from karotte_gym.mcp_server.http import _Activity

COMPLETE = {"type": "http.request", "body": b"{}", "more_body": False}
HALF = {"type": "http.request", "body": b"{", "more_body": True}


async def in_flight(method: str, *messages: dict[str, Any]) -> tuple[bool, bool]:
    """Whether a request counts as silence while it is in flight, and whether its end counts as news."""
    arrived: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
    for message in messages:
        arrived.put_nowait(message)
    release = asyncio.Event()

    async def app(_scope: Any, receive: Any, _send: Any) -> None:
        for _ in messages:
            await receive()
        await release.wait()

    activity = _Activity(app)
    activity._last -= 100
    request = asyncio.create_task(activity({"type": "http", "method": method}, arrived.get, None))
    for _ in range(10):
        await asyncio.sleep(0)
    silent = activity.idle_s > 50
    release.set()
    await request
    return silent, activity.idle_s < 50


def test_a_call_that_is_being_answered_is_no_silence() -> None:
    assert asyncio.run(in_flight("POST", HALF, COMPLETE)) == (False, True)


def test_a_stream_held_open_is_silence() -> None:
    assert asyncio.run(in_flight("GET", COMPLETE)) == (True, False)


def test_half_a_request_is_silence() -> None:
    assert asyncio.run(in_flight("POST", HALF)) == (True, False)
