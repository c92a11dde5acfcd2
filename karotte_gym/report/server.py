"""`karotte-gym view`: the page from loopback, with each episode fetched when it is opened.

Answers GET for three addresses and makes no path of anything that a client says. A page of another site in the same
browser could try to read the runs (by a name that it lets point to 127.0.0.1, or by a plain request), so the host that
was asked for has to be ours, and requests of other sites are refused.
"""

from __future__ import annotations

import gzip
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any
from urllib.parse import parse_qs, urlsplit

from karotte_gym.errors import ConfigError
from karotte_gym.report.page import page, policy
from karotte_gym.report.store import Store

__all__ = ["ViewServer"]


class ViewServer:
    """Context manager that serves until it is left; `url` is where. `port` 0 takes a free one."""

    def __init__(self, store: Store, port: int = 0):
        try:
            self._http = _Http(("127.0.0.1", port), _Handler)
        except OSError as error:
            raise ConfigError(f"port {port} of 127.0.0.1: {error.strerror}; give another --port") from error
        self._http.store = store
        self._thread = threading.Thread(target=self._http.serve_forever, name="karotte-view", daemon=True)

    @property
    def url(self) -> str:
        """For the browser."""
        return f"http://127.0.0.1:{self._http.server_port}/"

    def __enter__(self) -> ViewServer:
        self._thread.start()
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._http.shutdown()
        self._http.server_close()
        self._thread.join(10)


class _Http(ThreadingHTTPServer):
    daemon_threads = True
    store: Store


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = 60
    server: _Http

    def log_message(self, *_: object) -> None:
        """Quiet: the terminal belongs to whoever started it."""

    def do_GET(self) -> None:
        if not self._ours():
            self._send(403, "text/plain", b"ask for 127.0.0.1 from this page only\n")
            return
        asked = urlsplit(self.path)
        if asked.path == "/":
            self._send(200, "text/html; charset=utf-8", "".join(page(None)).encode())
        elif asked.path == "/overview":
            self._json(self.server.store.overview())
        elif asked.path == "/episode":
            self._episode(parse_qs(asked.query).get("id", [""])[0])
        else:
            self._send(404, "text/plain", b"there is nothing here\n")

    def _ours(self) -> bool:
        port = self.server.server_port
        host = self.headers.get("Host", "") in (f"127.0.0.1:{port}", f"localhost:{port}")
        return host and self.headers.get("Sec-Fetch-Site", "none") in ("none", "same-origin")

    def _episode(self, identity: str) -> None:
        try:
            found = self.server.store.episode(identity)
        except ConfigError as error:
            self._send(500, "text/plain; charset=utf-8", f"{error}\n".encode())
            return
        if found is None:
            self._send(404, "text/plain", b"there is no such episode\n")
        else:
            self._json(found)

    def _json(self, value: Any) -> None:
        content = json.dumps(value, ensure_ascii=True).encode()
        self._send(200, "application/json", gzip.compress(content, 1), {"Content-Encoding": "gzip"})

    def _send(self, status: int, kind: str, content: bytes, more: dict[str, str] | None = None) -> None:
        headers = {
            "Content-Type": kind,
            "Content-Length": str(len(content)),
            "Content-Security-Policy": policy(served=True) + "; frame-ancestors 'none'",
            "X-Content-Type-Options": "nosniff",
            "Cross-Origin-Resource-Policy": "same-origin",
            "Referrer-Policy": "no-referrer",
            "Cache-Control": "no-store",
        }
        self.send_response(status)
        for name, value in {**headers, **(more or {})}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)
