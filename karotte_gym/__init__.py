"""Gymnasium environments that are hardened virtual machines. Importing registers ``karotte/<task-id>``.

::

    import gymnasium as gym, karotte_gym
    env = gym.make("karotte/q3-revenue")
"""

from karotte_gym.config import FileLimit, Hardware, Limits, SubmissionLimits
from karotte_gym.errors import (
    CacheError,
    CallRefused,
    ConfigError,
    GradingError,
    ImageError,
    KarotteError,
    MachineDied,
    MachineError,
)
from karotte_gym.judges import AlwaysPassJudge, Evidence, ExecutableJudge, Judge
from karotte_gym.record import CompletionRecord
from karotte_gym.registration import register_project, register_shipped
from karotte_gym.sandbox.contract import CommandResult, Contract, Sandbox, Submission
from karotte_gym.scoring import MisbehaviorKind, Scoring, StudentMisbehavior
from karotte_gym.task import Step, Task, TaskConfig
from karotte_gym.transcript import Transcript

__all__ = [
    "AlwaysPassJudge",
    "CacheError",
    "CallRefused",
    "CommandResult",
    "CompletionRecord",
    "ConfigError",
    "Contract",
    "Evidence",
    "ExecutableJudge",
    "FileLimit",
    "GradingError",
    "Hardware",
    "ImageError",
    "Judge",
    "KarotteError",
    "Limits",
    "MachineDied",
    "MachineError",
    "MisbehaviorKind",
    "Sandbox",
    "Scoring",
    "Step",
    "StudentMisbehavior",
    "Submission",
    "SubmissionLimits",
    "Task",
    "TaskConfig",
    "Transcript",
    "register_project",
]

__version__ = "0.1.0"

register_shipped()
