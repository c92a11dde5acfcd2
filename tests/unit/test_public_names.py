"""What a task author and a trainer import is pinned, and importing it starts and loads nothing heavy."""

import subprocess
import sys

import karotte_gym

PUBLIC = set(
    """
AllOf AnyOf Criterion FunctionContext FunctionJudge RegexJudge RubricJudge SubmissionUnusable SubmittedFiles
AlwaysPassJudge CacheError CallRefused CommandResult CompletionRecord ConfigError Contract Evidence EvidenceError ExecutableJudge
FileLimit GradingError Hardware ImageError Judge KarotteError Limits MachineDied MachineError MisbehaviorKind Sandbox
ProtectedStore Service StepLimits
Scoring Step StudentMisbehavior StudentSandbox Submission SubmissionLimits Task TaskConfig ToolContext ToolResult Transcript
register_project tool
""".split()  # noqa: SIM905
)


def test_the_public_names_are_these() -> None:
    assert set(karotte_gym.__all__) == PUBLIC
    assert all(hasattr(karotte_gym, name) for name in PUBLIC)


def test_importing_loads_neither_ray_nor_litellm_and_starts_no_process() -> None:
    code = """
import sys, threading, os
import karotte_gym
heavy = {"ray", "litellm", "torch", "typer", "rich", "mcp", "uvicorn", "copier"} & set(sys.modules)
children = open(f"/proc/self/task/{os.getpid()}/children").read().split()
print(sorted(heavy), threading.active_count(), children)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[] 1 []"
