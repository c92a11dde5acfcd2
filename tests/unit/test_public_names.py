"""What a task author and a trainer import is pinned, and importing it starts and loads nothing heavy."""

import subprocess
import sys

import karotte_gym

PUBLIC = set(
    """
AllOf AlwaysPassJudge AnyOf CacheError CallRefused CommandResult CompletionRecord ConfigError Contract
Criterion Evidence EvidenceError ExecutableJudge FileLimit FunctionContext FunctionJudge GradingError Hardware
ImageError Judge KarotteError Limits MachineDied MachineError MisbehaviorKind ProtectedStore RegexJudge
register_project RubricJudge Sandbox Scoring Service Step StepLimits StudentMisbehavior StudentSandbox
Submission SubmissionLimits SubmissionUnusable SubmittedFiles Task TaskConfig tool ToolContext ToolResult
Transcript
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
