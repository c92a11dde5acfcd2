"""Over streamable HTTP on the loopback interface, for agents that are started by something else.

Whoever reaches the address plays the episode, so the address is 127.0.0.1 alone. A page in a browser of this host can
send requests there, too, from a name of its own that it has resolve to 127.0.0.1; the names in its requests give it
away, and requests for other names or from other origins are refused. A secret path keeps out other users of the host.

Clients of this protocol come and go, some with a new connection for each call. So nobody's leaving ends the episode,
but silence does: no call in work, and none come, for the idle limit. A stream that a client holds open says nothing,
and neither does a request of which only a part has come.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import time
from collections.abc import Callable, Iterator
from typing import Any

import uvicorn
from mcp.server.transport_security import TransportSecuritySettings

from karotte_gym.errors import ConfigError
from karotte_gym.mcp_server.served_episode import Leaving, ServedEpisode
from karotte_gym.mcp_server.server import make_server

__all__ = ["HOST", "serve_http"]

HOST = "127.0.0.1"
MAX_BODY_BYTES = 1024 * 1024  # a call is refused from 224 KiB on
MAX_SESSIONS = 32
LINGER_S = 10.0  # after the end, for the last answers to get out
POLL_S = 0.2
App = Callable[[Any, Any, Any], Any]


async def serve_http(
    episode: ServedEpisode,
    stop: asyncio.Event,
    *,
    port: int,
    path: str,
    idle_timeout_s: float,
    announce: Callable[[str], None],
) -> Leaving | None:
    """Serve until the episode is over, nobody comes any more or `stop` is set; `announce` gets the address.

    Returns how the agent left, should the episode not be over; None when `stop` came first. Raises what
    `ServedEpisode.begin` raises, and ConfigError for a port that is taken.
    """
    with _listening(port) as listener:
        if not await episode.begin(stop):
            return None
        real_port = listener.getsockname()[1]
        names = [f"{HOST}:{real_port}", f"localhost:{real_port}"]
        app = make_server(episode).streamable_http_app(
            streamable_http_path=path,
            max_request_body_size=MAX_BODY_BYTES,
            max_sessions=MAX_SESSIONS,
            transport_security=TransportSecuritySettings(
                allowed_hosts=names, allowed_origins=[f"http://{name}" for name in names]
            ),
        )
        activity = _Activity(app)
        config = uvicorn.Config(activity, log_level="error", access_log=False, timeout_graceful_shutdown=2)
        server = _Uvicorn(config)
        announce(f"http://{HOST}:{real_port}{path}")
        serving = asyncio.create_task(server.serve(sockets=[listener]))
        stopped = await _until_the_end(episode, stop, activity, idle_timeout_s, serving)
        server.should_exit = True
        await serving
        return None if stopped else "silence"


async def _until_the_end(
    episode: ServedEpisode, stop: asyncio.Event, activity: _Activity, idle_timeout_s: float, serving: asyncio.Task[None]
) -> bool:
    """Whether `stop` is what ended it."""
    while not (stop.is_set() or episode.over.is_set() or serving.done() or activity.idle_s > idle_timeout_s):
        await asyncio.sleep(POLL_S)
    stopped, ended = stop.is_set(), time.monotonic()
    while episode.over.is_set() and activity.answering and time.monotonic() < ended + LINGER_S:
        await asyncio.sleep(POLL_S)
    return stopped


class _Activity:
    """Counts the requests that are being answered, and the time since the last.

    Those are POSTs that came in full. A GET is held open by a client for as long as it likes, for news that never come,
    and the rest of a request may never come.
    """

    def __init__(self, app: App):
        self.answering = 0
        self._app = app
        self._last = time.monotonic()

    @property
    def idle_s(self) -> float:
        """Since the last answer was given; 0 while one is worked on."""
        return 0.0 if self.answering else time.monotonic() - self._last

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http" or scope["method"] != "POST":
            await self._app(scope, receive, send)
            return
        complete = False

        async def receive_and_count() -> Any:
            nonlocal complete
            message = await receive()
            if not complete and message["type"] == "http.request" and not message.get("more_body"):
                complete = True
                self.answering += 1
            return message

        try:
            await self._app(scope, receive_and_count, send)
        finally:
            if complete:
                self.answering -= 1
                self._last = time.monotonic()


class _Uvicorn(uvicorn.Server):
    """Signals are the caller's: an episode is given up before anything ends."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


@contextlib.contextmanager
def _listening(port: int) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((HOST, port))
            listener.listen()  # from here on a client waits, where it would be refused
        except OSError as error:
            reason = f"port {port} of {HOST} can't be had ({error.strerror})"
            raise ConfigError(f"{reason}; leave --port out for a free one") from error
        yield listener
