"""The tools that a student is offered: one definition each, from which schemas and validation come.

`toolset.Toolset` holds a task's tools and runs them. What is exported here is what an author's own tool is written with.
"""

from karotte_gym.tools.call import ToolCall
from karotte_gym.tools.context import ToolContext
from karotte_gym.tools.mark import tool
from karotte_gym.tools.student_sandbox import StudentSandbox
from karotte_gym.tools.text import clean

__all__ = ["StudentSandbox", "ToolCall", "ToolContext", "clean", "tool"]
