"""What an author writes: a `Task` of `Step`s. Hooks run on the host and reach the machine only by its handle.

::

    class Hello(Task):
        id = "hello"
        steps = (Step("Write hi to /workdir/hi.txt.", ("/workdir/hi.txt",), ExecutableJudge()),)

The class is the definition, checked when Python reads it; an instance belongs to one episode and may keep what that
episode needs (an expected value drawn from the seed, say). Nothing of an instance is ever seen by the student.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from pydantic import BaseModel, ConfigDict, ValidationError

from karotte_gym.config import Hardware, Limits, SubmissionLimits
from karotte_gym.errors import ConfigError
from karotte_gym.judges.base import GraderNeeds, Judge
from karotte_gym.sandbox.contract import MachineSpec, Sandbox
from karotte_gym.sandbox.progress import Progress

__all__ = ["BUILT_IN_TOOLS", "Step", "Task", "TaskConfig"]

BUILT_IN_TOOLS = ("bash", "view_lines_in_file", "replace_in_file")  # and submit, which every task has
_ID = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")
_VERSION = re.compile(r"-v[0-9]+$")  # Gymnasium reads such an ending as a version, not as a name
SUBMISSION_ROOT = "/workdir"


class TaskConfig(BaseModel):
    """What may be set per run; an author derives from it. Unknown names are refused."""

    model_config = ConfigDict(frozen=True, extra="forbid")


@dataclass(frozen=True, slots=True)
class Step:
    """One step: what the student is told, what it hands in, who judges it."""

    instructions: str
    submission_paths: tuple[str, ...]
    judge: Judge

    def __post_init__(self) -> None:
        if not isinstance(self.instructions, str) or not self.instructions.strip():
            raise ConfigError("a Step needs instructions: tell the student what to do")
        if isinstance(self.submission_paths, str):
            raise ConfigError(f"submission_paths must be a tuple: ({self.submission_paths!r},)")
        if not isinstance(self.submission_paths, (tuple, list)):
            raise ConfigError(f'submission_paths must be a tuple: ("/workdir/x.txt",), not {self.submission_paths!r}')
        for path in self.submission_paths:
            _check_submission_path(path)
        if not isinstance(self.judge, Judge):
            raise ConfigError(f"judge must be a Judge such as ExecutableJudge(), not {self.judge!r}")


class Task:
    """A task. Class attributes define it; `pre_hook` and `grading_data` make an episode of it."""

    id: ClassVar[str]
    steps: ClassVar[tuple[Step, ...]]
    system_prompt: ClassVar[str] = (
        "You work in a Linux machine without a network, as the user student in /workdir. "
        "Use the tools to do the task, then call submit."
    )
    tools: ClassVar[tuple[str, ...]] = BUILT_IN_TOOLS
    hardware: ClassVar[Hardware] = Hardware()
    grader_hardware: ClassVar[Hardware] = Hardware()
    limits: ClassVar[Limits] = Limits()
    submission_limits: ClassVar[SubmissionLimits] = SubmissionLimits()
    max_episode_steps: ClassVar[int | None] = None
    Config: ClassVar[type[TaskConfig]] = TaskConfig
    config: TaskConfig

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "id" in cls.__dict__:  # a class without an id is a base for others
            _check_definition(cls)

    def __init__(self, config: Mapping[str, Any] | None = None):
        if not isinstance(config, Mapping | None):
            raise ConfigError(f'task {self.id}: its config must be a mapping such as {{"name": 1}}, not {config!r}')
        try:
            self.config = self.Config.model_validate(dict(config or {}))
        except ValidationError as error:
            raise ConfigError(f"task {self.id}: {_wrong_config(error, self.Config)}") from error

    @classmethod
    def folder(cls) -> Path:
        """The environment's folder: where the class's file is."""
        return Path(inspect.getfile(cls)).resolve().parent

    def pre_hook(self, sandbox: Sandbox, rng: np.random.Generator) -> None:
        """Called after the student's session has started and before its first call. `rng` is the episode's own."""

    def grading_data(self) -> Mapping[str, bytes]:
        """This episode's own grading data, name to bytes. When there is any, the scoring script gets it *instead of*
        ``root_data/`` as its second argument. Called when the grader machine is ready: it never meets the student."""
        return {}

    @classmethod
    def student_machine(cls, *, test_hooks: bool = False, use_cgroups: bool = True) -> MachineSpec:
        """The machine that the student gets."""
        return MachineSpec(
            role="student",
            hardware=cls.hardware,
            drive=_existing(cls.folder(), "student_data", "shared_data"),
            test_hooks=test_hooks,
            use_cgroups=use_cgroups,
            silence_timeout_s=cls.limits.silence_timeout_s,
        )

    @classmethod
    def grader_needs(cls) -> GraderNeeds:
        """What a judge may know of the task: its folder, and what it brings for the grader's data drive."""
        return GraderNeeds(cls.folder(), cls.grader_hardware, _existing(cls.folder(), "root_data"))

    @classmethod
    def prepare(cls, progress: Progress | None = None, *, test_hooks: bool = False, use_cgroups: bool = True) -> None:
        """Build what its machines need (image, drives, snapshots). Minutes when nothing is there, else milliseconds."""
        from karotte_gym.sandbox import machines  # here, so that defining a task loads no machinery

        specs = [cls.student_machine(test_hooks=test_hooks, use_cgroups=use_cgroups)]
        specs += [spec for step in cls.steps if (spec := step.judge.machine(cls.grader_needs())) is not None]
        for spec in specs:
            machines.prepare(spec, progress)


def _wrong_config(error: ValidationError, config: type[TaskConfig]) -> str:
    """The first mistake in a sentence."""
    first = error.errors()[0]
    name = ".".join(str(part) for part in first["loc"])
    if first["type"] != "extra_forbidden" or len(first["loc"]) > 1:
        return f"config {name!r}: {first['msg']}"
    if name == "generated":
        return "this task draws no data from the seed: leave out generated"
    return f"config: there is no {name!r}; there are: {', '.join(config.model_fields) or 'none'}"


def _existing(folder: Path, *names: str) -> tuple[tuple[str, str], ...]:
    return tuple((name, str(folder / name)) for name in names if (folder / name).is_dir())


def _check_definition(cls: type[Task]) -> None:
    where = f"task class {cls.__qualname__} in {inspect.getfile(cls)}"
    if not isinstance(cls.id, str) or not _ID.fullmatch(cls.id) or _VERSION.search(cls.id):
        raise ConfigError(f'{where}: id {cls.id!r} must be like "q3-revenue": a-z, 0-9, single dashes, no ending -v1')
    steps = getattr(cls, "steps", ())
    if not isinstance(steps, tuple) or not steps or not all(isinstance(step, Step) for step in steps):
        raise ConfigError(f"{where}: steps must be a tuple of Step: steps = (Step(...),)")
    unknown = sorted(set(cls.tools) - set(BUILT_IN_TOOLS))
    if unknown:
        raise ConfigError(f"{where}: unknown tools {unknown}; there are {list(BUILT_IN_TOOLS)}")


def _check_submission_path(path: str) -> None:
    if not isinstance(path, str):
        raise ConfigError(f'submission path {path!r} must be text: "/workdir/x.txt"')
    parts = path.split("/")
    if not path.startswith(SUBMISSION_ROOT + "/") or "" in parts[1:] or "." in parts or ".." in parts:
        raise ConfigError(f'submission path {path!r} must be absolute and below {SUBMISSION_ROOT}: "/workdir/x.txt"')
