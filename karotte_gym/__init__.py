"""Gymnasium environments that are hardened virtual machines. Importing registers ``karotte/<task-id>``.

::

    import gymnasium as gym, karotte_gym
    env = gym.make("karotte/q3-revenue")
"""

from karotte_gym.config import FileLimit, Hardware, Limits, StepLimits, SubmissionLimits
from karotte_gym.errors import (
    CacheError,
    CallRefused,
    ConfigError,
    EvidenceError,
    GradingError,
    ImageError,
    KarotteError,
    MachineDied,
    MachineError,
)
from karotte_gym.judges import (
    AllOf,
    AlwaysPassJudge,
    AnyOf,
    Criterion,
    Evidence,
    ExecutableJudge,
    FunctionContext,
    FunctionJudge,
    Judge,
    RegexJudge,
    RubricJudge,
    SubmissionUnusable,
    SubmittedFiles,
)
from karotte_gym.record import CompletionRecord
from karotte_gym.registration import register_installed, register_project, register_shipped
from karotte_gym.sandbox.contract import CommandResult, Contract, Sandbox, Submission
from karotte_gym.scoring import MisbehaviorKind, Scoring, StudentMisbehavior
from karotte_gym.service import Service
from karotte_gym.store import ProtectedStore
from karotte_gym.task import Step, Task, TaskConfig
from karotte_gym.tool_results import ToolResult
from karotte_gym.tools import StudentSandbox, ToolContext, tool
from karotte_gym.transcript import Transcript

__all__ = [
    "AllOf",
    "AlwaysPassJudge",
    "AnyOf",
    "CacheError",
    "CallRefused",
    "CommandResult",
    "CompletionRecord",
    "ConfigError",
    "Contract",
    "Criterion",
    "Evidence",
    "EvidenceError",
    "ExecutableJudge",
    "FileLimit",
    "FunctionContext",
    "FunctionJudge",
    "GradingError",
    "Hardware",
    "ImageError",
    "Judge",
    "KarotteError",
    "Limits",
    "MachineDied",
    "MachineError",
    "MisbehaviorKind",
    "ProtectedStore",
    "RegexJudge",
    "RubricJudge",
    "Sandbox",
    "Scoring",
    "Service",
    "Step",
    "StepLimits",
    "StudentMisbehavior",
    "StudentSandbox",
    "Submission",
    "SubmissionLimits",
    "SubmissionUnusable",
    "SubmittedFiles",
    "Task",
    "TaskConfig",
    "ToolContext",
    "ToolResult",
    "Transcript",
    "register_project",
    "tool",
]

__version__ = "0.1.0"

register_shipped()
register_installed()
