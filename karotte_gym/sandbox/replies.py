"""The fields of a reply that a hostile machine wrote: of the right type and within bounds, or it is no reply."""

from __future__ import annotations

from typing import Any, NoReturn

from karotte_gym.sandbox.channel import Channel
from karotte_gym.sandbox.contract import Contract, Enforcement

__all__ = ["Reply"]

MAX_COUNT = 2**63 - 1
MAX_LIST = 100_000
_RESOURCES = 64  # characters of a resource's name
_EVIDENCE = 2000
_ENFORCEMENTS: tuple[Enforcement, ...] = ("prevented", "detected_and_reaped", "not_supported")


class Reply:
    """The object of one reply; a field that is not as asked ends the machine with MachineDied(cause="protocol")."""

    def __init__(self, channel: Channel, method: str, fields: dict[str, Any]):
        self._channel = channel
        self._method = method
        self._fields = fields

    def integer(self, name: str, low: int = 0, high: int = MAX_COUNT) -> int:
        value = self._fields.get(name)
        if type(value) is not int or not low <= value <= high:
            self._wrong(name)
        return value

    def optional_integer(self, name: str, low: int = 0, high: int = MAX_COUNT) -> int | None:
        return None if self._is_null(name) else self.integer(name, low, high)

    def flag(self, name: str) -> bool:
        value = self._fields.get(name)
        if type(value) is not bool:
            self._wrong(name)
        return value

    def text(self, name: str, max_chars: int) -> str:
        """Text without half surrogates, which could not be written anywhere later."""
        value = self._fields.get(name)
        if type(value) is not str or len(value) > max_chars:
            self._wrong(name)
        return _writable(value)

    def texts(self, name: str, max_chars: int = 8192) -> list[str]:
        values = self._items(name)
        if any(type(value) not in (str, int) or len(str(value)) > max_chars for value in values):
            self._wrong(name)
        return [_writable(str(value)) for value in values]

    def object(self, name: str) -> Reply:
        value = self._fields.get(name)
        if type(value) is not dict:
            self._wrong(name)
        return Reply(self._channel, self._method, value)

    def contracts(self) -> tuple[Contract, ...]:
        items = [Reply(self._channel, self._method, item) for item in self._objects("contracts")]
        return tuple(
            Contract(
                resource=item.text("resource", _RESOURCES),
                enforcement=item._enforcement(),
                limit=item.optional_integer("limit"),
                evidence=item.text("evidence", _EVIDENCE),
            )
            for item in items
        )

    def _enforcement(self) -> Enforcement:
        value = self._fields.get("enforcement")
        matching = [known for known in _ENFORCEMENTS if value == known]
        if not matching:
            self._wrong("enforcement")
        return matching[0]

    def _objects(self, name: str) -> list[dict[str, Any]]:
        values = self._items(name)
        if any(type(value) is not dict for value in values):
            self._wrong(name)
        return values

    def _items(self, name: str) -> list[Any]:
        value = self._fields.get(name)
        if type(value) is not list or len(value) > MAX_LIST:
            self._wrong(name)
        return value

    def _is_null(self, name: str) -> bool:
        if name not in self._fields:
            self._wrong(name)
        return self._fields[name] is None

    def _wrong(self, name: str) -> NoReturn:
        self._channel.reject(f"the machine answered {self._method} with a wrong {name}")


def _writable(text: str) -> str:
    return text.encode("utf-8", "replace").decode()
