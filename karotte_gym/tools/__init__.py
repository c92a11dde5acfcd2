"""The tools that a student is offered: one definition each, from which schemas and validation come."""

from karotte_gym.tools.builtin import BUILTIN, Bash, ReplaceInFile, Submit, ViewLinesInFile
from karotte_gym.tools.call import ToolCall, parse_action
from karotte_gym.tools.schemas import mcp_schemas, openai_schemas, signature
from karotte_gym.tools.text import clean

__all__ = [
    "BUILTIN",
    "Bash",
    "ReplaceInFile",
    "Submit",
    "ToolCall",
    "ViewLinesInFile",
    "clean",
    "mcp_schemas",
    "openai_schemas",
    "parse_action",
    "signature",
]
