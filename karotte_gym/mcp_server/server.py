"""An episode as a server of the official Python MCP SDK: tools, their results, and the task as instructions and prompt."""

from __future__ import annotations

import base64
from importlib import metadata
from typing import Any

import mcp_types as types
from mcp.server.lowlevel import Server
from mcp.shared.exceptions import MCPError

from karotte_gym.mcp_server.served_episode import Answer, ServedEpisode

__all__ = ["PROMPT", "make_server", "result_of"]

PROMPT = "task"


def make_server(episode: ServedEpisode) -> Server[Any]:
    """For an episode that has begun.

    The task stands in the server's ``instructions`` and in a prompt, for clients show one or the other, or neither.
    """

    async def list_tools(_context: Any, _params: Any) -> types.ListToolsResult:
        return types.ListToolsResult(tools=[types.Tool.model_validate(tool) for tool in episode.tools])

    async def call_tool(_context: Any, params: types.CallToolRequestParams) -> types.CallToolResult:
        return result_of(await episode.call(params.name, params.arguments))

    async def list_prompts(_context: Any, _params: Any) -> types.ListPromptsResult:
        return types.ListPromptsResult(prompts=[types.Prompt(name=PROMPT, description="The task of this episode.")])

    async def get_prompt(_context: Any, params: types.GetPromptRequestParams) -> types.GetPromptResult:
        if params.name != PROMPT:
            raise MCPError(types.INVALID_PARAMS, f"there is no such prompt; there is: {PROMPT}")
        content = types.TextContent(type="text", text=_task(episode))
        return types.GetPromptResult(messages=[types.PromptMessage(role="user", content=content)])

    return Server(
        "karotte-gym",
        version=metadata.version("karotte-gym"),
        instructions=_task(episode),
        on_list_tools=list_tools,
        on_call_tool=call_tool,
        on_list_prompts=list_prompts,
        on_get_prompt=get_prompt,
    )


def _task(episode: ServedEpisode) -> str:
    return "\n\n".join(str(message["content"]) for message in episode.messages)


def result_of(answer: Answer) -> types.CallToolResult:
    """Text first, then the pictures."""
    content: list[Any] = [types.TextContent(type="text", text=answer.text)]
    for image in answer.images:
        data = base64.b64encode(image.data).decode("ascii")
        content.append(types.ImageContent(type="image", data=data, mime_type=image.media_type))
    return types.CallToolResult(content=content, is_error=answer.failed)
