"""`Definition`: one tool as a `Toolset` holds it, whoever wrote it; and the built-in ones.

Promises of every definition:

- `run` returns a `ToolResult` whose text is cleaned and bounded, for whatever arguments fit its schema.
- It raises `StudentMisbehavior` and `MachineDied` (the student's doing), `MachineError` (ours), and nothing else:
  a tool that fails is an answer to the student and never the end of a run.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel

from karotte_gym.config import Limits
from karotte_gym.errors import ConfigError
from karotte_gym.sandbox.contract import Sandbox
from karotte_gym.tool_results import ToolResult, run_call
from karotte_gym.tools.builtin import Tool
from karotte_gym.tools.call import ToolCall
from karotte_gym.tools.context import ToolContext

__all__ = ["BuiltIn", "CallSite", "Configuration", "Definition"]

Configuration = BaseModel | Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class CallSite:
    """Where a call is run: the student's machine, the task's limits, and what a tool may know of the episode."""

    sandbox: Sandbox
    limits: Limits
    context: ToolContext


class Definition(ABC):
    """See the module's text for what is promised."""

    def __init__(self, name: str, arguments: type[Tool]):
        self.name = name
        self.arguments = arguments

    def configure(self, configuration: Configuration | None) -> None:
        """Take the task's configuration for the next episode. ConfigError when it does not fit; None is none given."""
        if configuration is not None:
            raise ConfigError(f"configure_tools: the tool {self.name!r} takes no configuration; leave it out")

    def begin_episode(self) -> None:  # noqa: B027 - most tools keep nothing
        """Forget the last episode: what a tool keeps from call to call ends with it."""

    @abstractmethod
    def run(self, call: ToolCall, site: CallSite) -> ToolResult:
        """Run one call that fits the schema."""


class BuiltIn(Definition):
    """A tool that the machine's agent runs as the student."""

    def run(self, call: ToolCall, site: CallSite) -> ToolResult:
        """As the agent does it."""
        return run_call(site.sandbox, call, site.limits)
