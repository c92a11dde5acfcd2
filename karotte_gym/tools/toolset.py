"""`Toolset`: all tools of one task, and the only way from an action to its result.

Built-in tools, an author's own and `submit` are offered, read and checked in the same way, so that a rule about calls
is written once. `submit` is read here and carried out by the environment, for it is no matter of the machine alone.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from karotte_gym.errors import ConfigError
from karotte_gym.tool_results import ToolResult
from karotte_gym.tools import schemas
from karotte_gym.tools.builtin import BUILTIN, Tool
from karotte_gym.tools.call import ToolCall, parse_action
from karotte_gym.tools.definition import BuiltIn, CallSite, Configuration, Definition
from karotte_gym.tools.own import load_tool
from karotte_gym.tools.own_files import SUBMIT, package_of, tool_files

if TYPE_CHECKING:
    from karotte_gym.task import Task

__all__ = ["SUBMIT", "Toolset"]


class Toolset:
    """The tools of one task. An environment has one; what tools keep of an episode ends with `begin_episode`."""

    def __init__(self, definitions: Iterable[Definition]):
        self._definitions = {one.name: one for one in definitions}
        self._definitions[SUBMIT] = BuiltIn(SUBMIT, BUILTIN[SUBMIT])
        self._models = {name: one.arguments for name, one in self._definitions.items()}

    @classmethod
    def of_task(cls, task: type[Task]) -> Toolset:
        """Those that `task.tools` names: a file in its ``tools/`` folder, else a built-in. ConfigError names the mistake."""
        own = tool_files(task.folder())
        package = package_of(task.__module__, task.folder())
        return cls(
            load_tool(own[name], package) if name in own else BuiltIn(name, _built_in(name))
            for name in task.tools
            if name != SUBMIT
        )

    @property
    def names(self) -> tuple[str, ...]:
        """In the order of `Task.tools`; `submit` is the last."""
        return tuple(self._definitions)

    def openai_schemas(self) -> list[dict[str, Any]]:
        """For chat APIs, fresh each time."""
        return schemas.openai_schemas(self._models)

    def mcp_schemas(self) -> list[dict[str, Any]]:
        """For the Model Context Protocol, fresh each time."""
        return schemas.mcp_schemas(self._models)

    def parse(self, action: object) -> ToolCall | str:
        """The call in `action`, which may be any object whatsoever, or what is wrong with it and the tool's schema."""
        return parse_action(action, self._models)

    def configure(self, configurations: Mapping[str, Configuration]) -> None:
        """What `Task.configure_tools` returned. ConfigError names a tool that is not there or the field that is wrong."""
        if not isinstance(configurations, Mapping):
            raise ConfigError(f"configure_tools must return a mapping of names to configurations, not {configurations!r}")
        unknown = sorted(set(configurations) - set(self.names))
        if unknown:
            raise ConfigError(f"configure_tools names {unknown}, which are no tools of the task: {list(self.names)}")
        for name, definition in self._definitions.items():
            definition.configure(configurations.get(name))

    def begin_episode(self, configurations: Mapping[str, Configuration]) -> None:
        """Configure for a new episode; nothing that a tool kept of the last one stays."""
        self.configure(configurations)
        for definition in self._definitions.values():
            definition.begin_episode()

    def run(self, call: ToolCall, site: CallSite) -> ToolResult:
        """Run a call that `parse` returned; any but `submit`. What may be raised is in `definition`."""
        started = time.monotonic()
        result = self._definitions[call.name].run(call, site)
        if result.duration_s:
            return result
        return dataclasses.replace(result, duration_s=time.monotonic() - started)


def _built_in(name: str) -> type[Tool]:
    try:
        return BUILTIN[name]
    except KeyError:
        raise ConfigError(f"there is no tool {name!r}: write tools/{name}.py or name one of {list(BUILTIN)}") from None
