"""What an exception of litellm's means for us: a `Failure` to retry or report, or the student's own limit.

Judged by types and status codes, never by words in a message. litellm gives connection errors a made-up status 500, so
the chain of causes is asked first: only there can "refused by nobody" be told from "refused by the server".
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping
from email.utils import parsedate_to_datetime
from typing import Any

from karotte_gym.models.errors import ContextExceeded, FailureKind
from karotte_gym.models.retry import Failure

__all__ = ["ContentFiltered", "failure_of", "retry_after_s"]

_MAX_MESSAGE_CHARS = 500  # a provider may answer with a whole page


class ContentFiltered(Exception):
    """The provider refused the conversation itself for its content; ends the step as a content-filter stop does."""


def failure_of(error: BaseException, redacted_message: str) -> Failure:
    """Classify; raises ContextExceeded or ContentFiltered for what is the student's doing."""
    status = _status(error)
    names = {type(link).__name__ for link in _chain(error)}
    if status in (400, 413) and "ContextWindowExceededError" in names:
        raise ContextExceeded
    if status == 400 and "ContentPolicyViolationError" in names:
        raise ContentFiltered
    message = redacted_message[:_MAX_MESSAGE_CHARS] or type(error).__name__
    kind = _transport_kind(error) or _status_kind(status, error)
    wait = retry_after_s(_headers(error), time.time()) if kind in ("rate_limit", "server") else None
    return Failure(kind, message, status if _transport_kind(error) is None else None, wait)


def retry_after_s(headers: Mapping[str, str], now: float) -> float | None:
    """Seconds that `retry-after-ms` or `retry-after` (seconds or a date) ask for; None when absent or nonsense."""
    milliseconds = _number(headers.get("retry-after-ms"))
    if milliseconds is not None:
        return milliseconds / 1000
    text = headers.get("retry-after")
    seconds = _number(text)
    if seconds is not None or text is None:
        return seconds
    try:
        return max(0.0, parsedate_to_datetime(text).timestamp() - now)
    except (TypeError, ValueError, OverflowError):
        return None  # not a number and not a date: as if nothing had been said, so our own backoff applies


def _number(text: str | None) -> float | None:
    try:
        value = float(text) if text is not None else math.nan
    except ValueError:
        return None
    return value if math.isfinite(value) and value >= 0 else None


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        error = error.__cause__ or error.__context__


def _transport_kind(error: BaseException) -> FailureKind | None:
    import httpx

    links = list(_chain(error))
    if any(isinstance(link, httpx.HTTPStatusError) for link in links):
        return None  # the server did answer
    unreachable = (httpx.ConnectError, httpx.ConnectTimeout, httpx.ProxyError, httpx.UnsupportedProtocol)
    if any(isinstance(link, unreachable) for link in links):
        return "unreachable"
    if any(isinstance(link, httpx.TimeoutException | TimeoutError) for link in links):
        return "timeout"
    if any(isinstance(link, httpx.TransportError) for link in links):
        return "server"
    return None


def _status(error: BaseException) -> int | None:
    """The server's status where it is known. litellm rewrites some (529 to 500), which changes no decision here."""
    import httpx

    for link in _chain(error):
        if isinstance(link, httpx.HTTPStatusError):
            return link.response.status_code
    value = getattr(error, "status_code", None)
    return value if isinstance(value, int) else None


def _status_kind(status: int | None, error: BaseException) -> FailureKind:
    if status in (401, 403):
        return "authentication"
    if status == 429:
        # the account is empty: no waiting helps, and the code is a field of its own in OpenAI's error
        empty = any(getattr(link, "code", None) == "insufficient_quota" for link in _chain(error))
        return "refused" if empty else "rate_limit"
    if status is not None and 300 <= status < 500 and status not in (408, 409, 425):
        return "refused"
    return "server"  # 5xx, and an answer that nobody can read


def _headers(error: BaseException) -> dict[str, str]:
    for link in _chain(error):
        response = getattr(link, "response", None)
        for headers in (getattr(link, "litellm_response_headers", None), getattr(response, "headers", None)):
            if headers:
                return {str(name).lower(): str(value) for name, value in _items(headers)}
    return {}


def _items(headers: Any) -> Iterator[tuple[Any, Any]]:
    return iter(headers.items())
