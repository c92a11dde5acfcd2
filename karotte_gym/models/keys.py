"""Provider keys: where they come from, and that they end up nowhere but in the header of a request.

Two dangers. A server (or a proxy on the way) may repeat the key in an error or in a reply, from where it would travel
into logs, transcripts and, as the argument of a tool call, into the student's machine. And a key given on a command
line is read by everybody who can list processes. So every text that comes back from a provider goes through
`Secrets.redact` before anything else sees it, and `resolve_reference` takes no literal key.
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import quote, urlsplit

from karotte_gym.errors import ConfigError

__all__ = ["REDACTED", "Secrets", "find_key", "hidden_in", "resolve_reference"]

REDACTED = "[key]"
_MIN_SECRET_CHARS = 8  # shorter values ("none", "test") are no secrets, and replacing them would garble honest text
_SECRET_NAME = re.compile(r"(API_?KEY|ACCESS_KEY|SECRET|TOKEN|PASSWORD|CREDENTIAL)", re.IGNORECASE)
_SECRET_HEADER = re.compile(r"(authorization|cookie|key)", re.IGNORECASE)
_REFERENCE = re.compile(r"\$\{?([A-Za-z_][A-Za-z0-9_]*)\}?")


def resolve_reference(text: str, environment: Mapping[str, str] | None = None) -> str:
    """The value of ``$NAME`` or ``${NAME}``. ConfigError for a literal: it would show in process lists and files."""
    match = _REFERENCE.fullmatch(text.strip())
    if match is None:
        raise ConfigError("a key is given as a reference to an environment variable, like '$MY_PROVIDER_KEY'")
    value = (os.environ if environment is None else environment).get(match[1], "")
    if not value:
        raise ConfigError(f"the environment variable {match[1]} is not set, and a key was to come from it")
    return value


def find_key(explicit: str | None, variables: Iterable[str], environment: Mapping[str, str] | None = None) -> str | None:
    """The explicit key (``$NAME`` or the key itself), or the first of the provider's variables that is set."""
    if explicit:
        return resolve_reference(explicit, environment) if explicit.startswith("$") else explicit
    values = os.environ if environment is None else environment
    return next((values[name] for name in variables if values.get(name)), None)


def hidden_in(value: Any, under_secret_name: bool = False) -> list[str]:
    """Texts in nested data that stand under a name such as api_key or Authorization: keys in a request's extras."""
    if isinstance(value, Mapping):
        return [
            found
            for name, item in value.items()
            for found in hidden_in(item, bool(_SECRET_NAME.search(str(name)) or _SECRET_HEADER.search(str(name))))
        ]
    if isinstance(value, list | tuple):
        return [found for item in value for found in hidden_in(item, under_secret_name)]
    if under_secret_name and isinstance(value, str):
        return [value, *value.split()[1:]]  # also what follows "Bearer"
    return []


class Secrets:
    """What must not be seen: given keys, every environment variable that looks like one, passwords in URLs."""

    def __init__(self, *given: str | None, urls: Iterable[str | None] = (), environment: Mapping[str, str] | None = None):
        values = {value for value in given if value}
        values |= {urlsplit(url).password or "" for url in urls if url}
        for name, value in (os.environ if environment is None else environment).items():
            if _SECRET_NAME.search(name):
                values.add(value)
            elif name.lower().endswith("_proxy") and "@" in value:
                values.add(urlsplit(value).password or "")
        long_enough = {value for value in values if len(value) >= _MIN_SECRET_CHARS}
        spellings = long_enough | {quote(value, safe="") for value in long_enough}
        # longest first, or a key that begins with another one would leave its tail behind
        ordered = sorted(spellings, key=len, reverse=True)
        self.pattern = re.compile("|".join(map(re.escape, ordered))) if ordered else None

    def redact(self, text: str) -> str:
        """`text` without any secret."""
        return self.pattern.sub(REDACTED, text) if self.pattern else text

    def redact_all(self, value: Any) -> Any:
        """The same for every text inside lists, tuples and dicts, names of entries included."""
        if isinstance(value, str):
            return self.redact(value)
        if isinstance(value, dict):
            return {self.redact_all(key): self.redact_all(item) for key, item in value.items()}
        if isinstance(value, list | tuple):
            return [self.redact_all(item) for item in value]
        return value

    def guard_logger(self, name: str) -> None:
        """Redact what that logger says, arguments included, before any handler sees it."""
        logging.getLogger(name).addFilter(_RedactingFilter(self))


class _RedactingFilter(logging.Filter):
    """Equal for equal secrets, so that a logger holds one and not one for each of a million episodes."""

    def __init__(self, secrets: Secrets):
        super().__init__()
        self._secrets = secrets

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _RedactingFilter) and self._secrets.pattern == other._secrets.pattern

    def __hash__(self) -> int:
        return hash(self._secrets.pattern)

    def filter(self, record: logging.LogRecord) -> bool:
        record.msg, record.args = self._secrets.redact(record.getMessage()), None
        if record.exc_info:  # a formatted traceback would bring back what the message lost
            record.msg += f" ({getattr(record.exc_info[0], '__name__', 'error')})"
            record.exc_info = record.exc_text = None
        return True
