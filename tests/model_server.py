"""A model provider on 127.0.0.1 for tests: speaks the OpenAI and the Anthropic chat protocols and fails on request.

Real sockets, because what breaks in practice breaks there: half a stream, a connection reset, a header that says when
to come back. A script is a list of replies, used up in order, or a function from a `Request` to a reply, which is what
many episodes at once need. Every request is kept with its headers, so that a test can say who saw which key.
"""

from __future__ import annotations

import json
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

__all__ = [
    "Cut",
    "Fail",
    "Hang",
    "ModelServer",
    "Redirect",
    "Reply",
    "Request",
    "Reset",
    "Say",
    "Trickle",
    "call",
]


@dataclass(frozen=True)
class Request:
    """One request as it came in. `number` counts from 0 over the server's life."""

    number: int
    path: str
    headers: dict[str, str]
    body: dict[str, Any]

    @property
    def protocol(self) -> str:
        return "anthropic" if self.path.endswith("/messages") else "openai"

    @property
    def turns_so_far(self) -> int:
        """Assistant messages in the conversation: what a stateless script goes by."""
        return sum(1 for message in self.body["messages"] if message["role"] == "assistant")


def call(name: str, arguments: dict[str, Any] | str, identity: str = "") -> dict[str, Any]:
    """A tool call of a `Say`; arguments as text are sent as they are, which is how malformed ones are made."""
    return {"id": identity, "name": name, "arguments": arguments}


@dataclass(frozen=True)
class Say:
    """A proper turn. `finish` in OpenAI's words; "" means what fits the content."""

    text: str = ""
    calls: Sequence[dict[str, Any]] = ()
    reasoning: str = ""
    finish: str = ""
    input_tokens: int = 100
    output_tokens: int = 20
    logprobs: list[dict[str, Any]] | None = None
    token_ids: list[int] | None = None


@dataclass(frozen=True)
class Fail:
    """An error status with a body, given as it is."""

    status: int
    headers: dict[str, str] = field(default_factory=dict)
    message: str = "scripted failure"


@dataclass(frozen=True)
class Redirect:
    """302 to another place: a provider's key must not travel along."""

    location: str


@dataclass(frozen=True)
class Hang:
    """Accepts the request and stays silent for `seconds`, or until the server closes."""

    seconds: float = 3600.0


@dataclass(frozen=True)
class Trickle:
    """Sends a byte of white space every tenth of a second: never silent, never done."""

    seconds: float = 3600.0


@dataclass(frozen=True)
class Reset:
    """A TCP reset after `after_bytes` of the answer `of` (headers not counted); -1: before any."""

    of: Say = Say(text="half of a")
    after_bytes: int = -1


@dataclass(frozen=True)
class Cut:
    """Sends `after_bytes` of `of` without saying how long it is, then closes politely: no transport error tells."""

    of: Say
    after_bytes: int


Reply = Say | Fail | Redirect | Hang | Trickle | Reset | Cut
Script = Sequence[Reply] | Callable[[Request], Reply]


class ModelServer:
    """Context manager; `url` is the base for litellm's `api_base`."""

    def __init__(self, script: Script):
        self._script = script
        self._lock = threading.Lock()
        self.requests: list[Request] = []
        self.times: list[float] = []
        self.closing = threading.Event()
        self._http = _Http(("127.0.0.1", 0), _Handler)
        self._http.owner = self
        self._thread = threading.Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)

    @property
    def port(self) -> int:
        return int(self._http.server_address[1])

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def __enter__(self) -> ModelServer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.closing.set()
        self._http.shutdown()
        self._http.server_close()
        self._thread.join(10)

    def next_reply(self, path: str, headers: dict[str, str], body: dict[str, Any]) -> tuple[Request, Reply]:
        with self._lock:
            request = Request(len(self.requests), path, headers, body)
            self.requests.append(request)
            self.times.append(time.monotonic())
            if callable(self._script):
                return request, self._script(request)
            if request.number >= len(self._script):
                return request, Fail(418, message="the test's script is used up")
            return request, self._script[request.number]


class _Http(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 256
    owner: ModelServer


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Http

    def log_message(self, *_: object) -> None:
        """Quiet: a key in a request line must not end up in a test's output by our own doing."""

    def do_POST(self) -> None:
        raw = self.rfile.read(int(self.headers.get("content-length", "0")))
        headers = {name.lower(): value for name, value in self.headers.items()}
        request, reply = self.server.owner.next_reply(self.path, headers, json.loads(raw))
        try:
            self._answer(request, reply)
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True  # the client gave up, as it may

    def _answer(self, request: Request, reply: Reply) -> None:
        if isinstance(reply, Say):
            payload, kind = _render(request, reply)
            self._send(200, {"content-type": kind}, payload)
        elif isinstance(reply, Fail):
            error = {"type": "error", "error": {"type": "scripted_error", "message": reply.message}}
            self._send(reply.status, {"content-type": "application/json", **reply.headers}, json.dumps(error).encode())
        elif isinstance(reply, Redirect):
            self._send(302, {"location": reply.location}, b"")
        elif isinstance(reply, Cut):
            payload, kind = _render(request, reply.of)
            self.send_response(200)
            self.send_header("content-type", kind)
            self.send_header("connection", "close")
            self.end_headers()
            self.wfile.write(payload[: reply.after_bytes])
        elif isinstance(reply, Reset):
            self._reset(request, reply)
        elif isinstance(reply, Trickle):
            self._trickle(reply.seconds)
        else:
            self.server.owner.closing.wait(reply.seconds)
            self.close_connection = True

    def _send(self, status: int, headers: dict[str, str], payload: bytes) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("content-length", str(len(payload)))
        self.end_headers()
        self.wfile.write(payload)

    def _trickle(self, seconds: float) -> None:
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", "100000")
        self.end_headers()
        end = time.monotonic() + seconds
        while time.monotonic() < end and not self.server.owner.closing.wait(0.1):
            self.wfile.write(b" ")
        self.close_connection = True

    def _reset(self, request: Request, reply: Reset) -> None:
        if reply.after_bytes >= 0:
            payload, kind = _render(request, reply.of)
            self.send_response(200)
            self.send_header("content-type", kind)
            self.send_header("content-length", str(len(payload)))
            self.end_headers()
            self.wfile.write(payload[: reply.after_bytes])
            self.wfile.flush()
            time.sleep(0.05)  # a reset throws away what the peer has not read yet; this one is to break half-way
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.close_connection = True


def _render(request: Request, say: Say) -> tuple[bytes, str]:
    streamed = bool(request.body.get("stream"))
    render = {
        ("openai", False): _openai,
        ("openai", True): _openai_stream,
        ("anthropic", False): _anthropic,
        ("anthropic", True): _anthropic_stream,
    }[request.protocol, streamed]
    return render(request, say), "text/event-stream" if streamed else "application/json"


def _openai_calls(request: Request, say: Say) -> list[dict[str, Any]]:
    return [
        {
            "id": each["id"] or f"call_{request.number}_{index}",
            "type": "function",
            "function": {"name": each["name"], "arguments": _text(each["arguments"])},
        }
        for index, each in enumerate(say.calls)
    ]


def _text(arguments: dict[str, Any] | str) -> str:
    return arguments if isinstance(arguments, str) else json.dumps(arguments)


def _openai(request: Request, say: Say) -> bytes:
    message: dict[str, Any] = {"role": "assistant", "content": say.text or None}
    if say.calls:
        message["tool_calls"] = _openai_calls(request, say)
    if say.reasoning:
        message["reasoning_content"] = say.reasoning
    choice: dict[str, Any] = {"index": 0, "message": message, "finish_reason": _finish(say)}
    if say.logprobs is not None:
        choice["logprobs"] = {"content": say.logprobs}
    if say.token_ids is not None:
        choice["token_ids"] = say.token_ids
    return json.dumps(_openai_envelope(request, say, "chat.completion") | {"choices": [choice]}).encode()


def _openai_envelope(request: Request, say: Say, kind: str) -> dict[str, Any]:
    return {
        "id": f"chatcmpl-{request.number}",
        "object": kind,
        "created": 1764400000,
        "model": request.body.get("model", "test"),
        "usage": {
            "prompt_tokens": say.input_tokens,
            "completion_tokens": say.output_tokens,
            "total_tokens": say.input_tokens + say.output_tokens,
        },
    }


def _finish(say: Say) -> str:
    return say.finish or ("tool_calls" if say.calls else "stop")


def _openai_stream(request: Request, say: Say) -> bytes:
    def chunk(delta: dict[str, Any], finish: str | None = None) -> bytes:
        envelope = _openai_envelope(request, say, "chat.completion.chunk")
        usage = envelope.pop("usage")
        body = envelope | {"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}
        return b"data: " + json.dumps(body | ({"usage": usage} if finish else {})).encode() + b"\n\n"

    parts = [chunk({"role": "assistant", "content": ""})]
    if say.reasoning:
        parts.append(chunk({"reasoning_content": say.reasoning}))
    parts += [chunk({"content": piece}) for piece in _pieces(say.text)]
    for index, each in enumerate(_openai_calls(request, say)):
        head = {"index": index, "id": each["id"], "type": "function"}
        parts.append(chunk({"tool_calls": [head | {"function": {"name": each["function"]["name"], "arguments": ""}}]}))
        parts += [
            chunk({"tool_calls": [{"index": index, "function": {"arguments": piece}}]})
            for piece in _pieces(each["function"]["arguments"])
        ]
    return b"".join([*parts, chunk({}, _finish(say)), b"data: [DONE]\n\n"])


def _pieces(text: str, size: int = 7) -> Iterator[str]:
    return (text[start : start + size] for start in range(0, len(text), size))


_ANTHROPIC_STOP = {"tool_calls": "tool_use", "stop": "end_turn", "length": "max_tokens", "content_filter": "refusal"}


def _anthropic_blocks(request: Request, say: Say) -> list[dict[str, Any]]:
    blocks: list[dict[str, Any]] = []
    if say.reasoning:
        blocks.append({"type": "thinking", "thinking": say.reasoning, "signature": f"signature-{request.number}"})
    if say.text:
        blocks.append({"type": "text", "text": say.text})
    for index, each in enumerate(say.calls):
        identity = each["id"] or f"toolu_{request.number}_{index}"
        blocks.append({"type": "tool_use", "id": identity, "name": each["name"], "input": each["arguments"]})
    return blocks


def _anthropic_envelope(request: Request, say: Say) -> dict[str, Any]:
    return {
        "id": f"msg_{request.number}",
        "type": "message",
        "role": "assistant",
        "model": request.body["model"],
        "usage": {"input_tokens": say.input_tokens, "output_tokens": say.output_tokens},
    }


def _anthropic(request: Request, say: Say) -> bytes:
    ending = {"stop_reason": _ANTHROPIC_STOP[_finish(say)], "stop_sequence": None}
    content = {"content": _anthropic_blocks(request, say)}
    return json.dumps(_anthropic_envelope(request, say) | content | ending).encode()


def _anthropic_stream(request: Request, say: Say) -> bytes:
    def event(kind: str, **fields: Any) -> bytes:
        return f"event: {kind}\ndata: {json.dumps({'type': kind, **fields})}\n\n".encode()

    start = _anthropic_envelope(request, say) | {"content": [], "stop_reason": None, "stop_sequence": None}
    parts = [event("message_start", message=start)]
    for index, block in enumerate(_anthropic_blocks(request, say)):
        empty, deltas = _anthropic_deltas(block)
        parts.append(event("content_block_start", index=index, content_block=empty))
        parts += [event("content_block_delta", index=index, delta=delta) for delta in deltas]
        parts.append(event("content_block_stop", index=index))
    ending = {"stop_reason": _ANTHROPIC_STOP[_finish(say)], "stop_sequence": None}
    parts.append(event("message_delta", delta=ending, usage={"output_tokens": say.output_tokens}))
    return b"".join([*parts, event("message_stop")])


def _anthropic_deltas(block: dict[str, Any]) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    if block["type"] == "text":
        return {**block, "text": ""}, [{"type": "text_delta", "text": piece} for piece in _pieces(block["text"])]
    if block["type"] == "thinking":
        deltas = [{"type": "thinking_delta", "thinking": piece} for piece in _pieces(block["thinking"])]
        deltas.append({"type": "signature_delta", "signature": block["signature"]})
        return {"type": "thinking", "thinking": "", "signature": ""}, deltas
    pieces = _pieces(_text(block["input"]))
    return {**block, "input": {}}, [{"type": "input_json_delta", "partial_json": piece} for piece in pieces]
