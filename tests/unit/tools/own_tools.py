"""What tests of authors' tools share: how one is loaded, run as an environment runs it, and refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from karotte_gym import ToolResult
from karotte_gym.tools.call import ToolCall
from karotte_gym.tools.definition import CallSite, Definition
from karotte_gym.tools.toolset import Toolset

Load = Callable[..., Definition]


def run(tool: Definition, site: CallSite, **arguments: Any) -> ToolResult:
    """Through a toolset, as an environment does it."""
    toolset = Toolset([tool])
    toolset.begin_episode({})
    call = toolset.parse({"name": tool.name, "arguments": arguments})
    assert isinstance(call, ToolCall), call
    return toolset.run(call, site)


def refusal(tool: Definition, arguments: object) -> str:
    answer = Toolset([tool]).parse({"name": tool.name, "arguments": arguments})
    assert isinstance(answer, str), answer
    return answer
