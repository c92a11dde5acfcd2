"""How many bytes of pictures an episode may put into its chat.

Every picture stays in the chat, which is sent again with each turn and kept until the episode ends. A student that views
one of ten megabytes a thousand times would otherwise fill the trainer's memory, and make the provider refuse the request.
"""

from __future__ import annotations

from dataclasses import replace

from karotte_gym.tool_results import ToolResult

__all__ = ["MAX_EPISODE_PICTURE_BYTES", "PictureBudget"]

MAX_EPISODE_PICTURE_BYTES = 16 << 20  # 22 MB as text; the tightest of the large providers takes requests of 32 MB


class PictureBudget:
    """Of one episode."""

    def __init__(self, max_bytes: int = MAX_EPISODE_PICTURE_BYTES):
        self._left_bytes = max_bytes
        self._max_bytes = max_bytes

    def admit(self, result: ToolResult) -> ToolResult:
        """The result as it is, or without its pictures and a text that says so."""
        size = sum(len(image.data) for image in result.images)
        if size > self._left_bytes:
            left = f"{self._left_bytes} of {self._max_bytes} bytes are left for pictures in this episode"
            text = f"{result.text}\n[not shown: {left}; make it smaller]"
            return replace(result, text=text, images=(), exit_code=1)
        self._left_bytes -= size
        return result
