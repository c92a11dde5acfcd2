"""`HumanAgent`: a person at the terminal plays the student. What the machine says is made harmless before it is shown.

A terminal obeys escape sequences: output could rewrite what the person reads, or answer on their behalf. Control
characters are therefore shown as pictures.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from karotte_gym.agents.plain_text import visible
from karotte_gym.agents.turn import Turn, calling, saying

__all__ = ["HumanAgent"]

HELP = """Each line is a shell command. Otherwise:
  /call NAME {JSON}   call a tool with arguments
  /tools              list the tools
  /say TEXT           text instead of a call (ends the step of the task)
  /submit [TEXT]      hand in
  /help               this text; end of input (Ctrl-D) submits"""


class HumanAgent:
    """Reads with `read` and shows with `show`; both can be replaced, e.g. by a chat window."""

    def __init__(self, read: Callable[[str], str] = input, show: Callable[[str], object] = print):
        self._read, self._show = read, show
        self._shown = self._calls = 0

    def __repr__(self) -> str:
        return "HumanAgent()"

    def reset(self, info: Mapping[str, Any]) -> None:  # noqa: ARG002
        """Show how it works."""
        self._shown = self._calls = 0
        self._show(HELP)

    def act(self, messages: list[dict[str, Any]], tools: list[dict[str, Any]]) -> Turn:
        """Show what is new, then ask until there is a turn."""
        for message in messages[self._shown :]:
            if message["role"] != "assistant":
                self._show(visible(_text(message["content"])))
        self._shown = len(messages) + 1  # the person's own turn need not be shown to them
        while True:
            try:
                line = self._read("student> ")
            except EOFError:
                line = "/submit"
            turn = self._turn(line, tools)
            if turn is not None:
                return turn

    def _turn(self, line: str, tools: list[dict[str, Any]]) -> Turn | None:
        word, _, rest = line.strip().partition(" ")
        if word == "/submit":
            return self._call("submit", {"message": rest})
        if word == "/say":
            return saying(rest)
        if word == "/call":
            name, _, arguments = rest.strip().partition(" ")
            return self._call(name, arguments or "{}")
        if word == "/tools":
            for tool in tools:
                self._show(f"{tool['function']['name']}: {json.dumps(tool['function'].get('parameters', {}))}")
            return None
        if word == "/help" or not line.strip():
            self._show(HELP)
            return None
        return self._call("bash", {"command": line})

    def _call(self, name: str, arguments: dict[str, Any] | str) -> Turn:
        self._calls += 1
        return calling([{"name": name, "arguments": arguments}], first_id=self._calls)


def _text(content: object) -> str:
    if isinstance(content, list):
        return "\n".join(part.get("text", "[picture]") for part in content)
    return str(content)
