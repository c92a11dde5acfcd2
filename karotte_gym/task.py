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
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, ValidationError

from karotte_gym.config import Hardware, Limits, StepLimits, SubmissionLimits
from karotte_gym.errors import ConfigError
from karotte_gym.judges.base import GraderNeeds, Judge
from karotte_gym.sandbox.contract import MachineSpec, Sandbox
from karotte_gym.sandbox.progress import Progress
from karotte_gym.scoring import Scoring
from karotte_gym.service import Service
from karotte_gym.store import ProtectedStore
from karotte_gym.task_attributes import check_attributes
from karotte_gym.task_definition import SUBMISSION_ROOT, check_grading, check_submission_paths, check_tools, file_of

__all__ = ["BUILT_IN_TOOLS", "ID_FORM", "MAX_ID_CHARS", "SUBMISSION_ROOT", "Step", "Task", "TaskConfig", "is_task_id"]

BUILT_IN_TOOLS = ("bash", "view_lines_in_file", "replace_in_file")  # and submit, which every task has
_ID = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")
_VERSION = re.compile(r"-v[0-9]+$")  # Gymnasium reads such an ending as a version, not as a name
MAX_ID_CHARS = 64  # it is part of names of folders and runs, of which a file system takes 255 bytes
ID_FORM = f"a-z, 0-9, single dashes, no ending -v1, {MAX_ID_CHARS} letters at most"
NO_LIMITS = StepLimits()

PreScoringHook = Callable[[Sandbox, ProtectedStore], None]
PostHook = Callable[[Sandbox | None, ProtectedStore, Scoring | None], None]


class TaskConfig(BaseModel):
    """What may be set per run; an author derives from it. Unknown names are refused."""

    model_config = ConfigDict(frozen=True, extra="forbid")


@dataclass(frozen=True, slots=True)
class Step:
    """One step: what the student is told, what it hands in, who judges it, what it may take.

    `pre_scoring_hook(sandbox, store)` is called when the student's processes are dead, before the copy is taken: to
    measure or write down, as root, what the submission alone does not show. `post_hook(sandbox, store, scoring)` is
    called when the step was scored, before the next one's instructions: `sandbox` is None when the machine is gone,
    `scoring` is None in a bare environment, which grades nothing. No session runs during either. What either raises is a
    score of 0 with a warning for the author, for it may be the doing of what the student left; a KarotteError raises.
    """

    instructions: str
    submission_paths: tuple[str, ...]
    judge: Judge
    _: KW_ONLY
    pre_scoring_hook: PreScoringHook | None = None
    post_hook: PostHook | None = None
    limits: StepLimits = NO_LIMITS

    def __post_init__(self) -> None:
        if not isinstance(self.instructions, str) or not self.instructions.strip():
            raise ConfigError("a Step needs instructions: tell the student what to do")
        check_submission_paths(self.submission_paths)
        if not isinstance(self.judge, Judge):
            raise ConfigError(f"judge must be a Judge such as ExecutableJudge(), not {self.judge!r}")
        for name in ("pre_scoring_hook", "post_hook"):
            if getattr(self, name) is not None and not callable(getattr(self, name)):
                raise ConfigError(f"{name} must be a function, not {getattr(self, name)!r}")
        if not isinstance(self.limits, StepLimits):
            raise ConfigError(f"limits of a Step must be StepLimits(turns=20) or the like, not {self.limits!r}")


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
    score_tolerance: ClassVar[float] = 0.0  # for a timed task: by how much an honest score may differ between gradings
    accepted_forms: ClassVar[tuple[str, ...]] = ()  # forms of a right answer that `validate` would not expect to score
    known_to_student: ClassVar[tuple[str, ...]] = ()  # parts of the answer that the student is meant to find as text
    grade_in: ClassVar[Literal["grader", "student"]] = "grader"
    services: ClassVar[tuple[Service, ...]] = ()  # what answers while a live machine is graded
    Config: ClassVar[type[TaskConfig]] = TaskConfig
    config: TaskConfig
    store: ProtectedStore  # of this episode: for hooks, tools and judges

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
        self.store = ProtectedStore()

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

    def configure_tools(self) -> Mapping[str, BaseModel | Mapping[str, Any]]:
        """Configuration of this episode's tools, by a tool's name; what a tool takes is the tool's business."""
        return {}

    def combine_scores(self, scorings: Sequence[Scoring]) -> float:
        """The episode's score, from 0 to 1, of its scored steps (one at least), in order. That of the last one."""
        return scorings[-1].score

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
            containerfile=_containerfile(cls.folder(), "Containerfile"),
        )

    @classmethod
    def grader_needs(cls) -> GraderNeeds:
        """What a judge may know of the task: its folder, and what it brings for the grader's data drive."""
        containerfile = _containerfile(cls.folder(), "grader.Containerfile")
        return GraderNeeds(cls.folder(), cls.grader_hardware, _existing(cls.folder(), "root_data"), containerfile)

    @classmethod
    def prepare(cls, progress: Progress | None = None, *, test_hooks: bool = False, use_cgroups: bool = True) -> None:
        """Build what its machines need (image, drives, snapshots). Minutes when nothing is there, else milliseconds."""
        from karotte_gym.sandbox import check_image, machines  # here, so that defining a task loads no machinery

        specs = [cls.student_machine(test_hooks=test_hooks, use_cgroups=use_cgroups)]
        if cls.grade_in == "grader":
            specs += [spec for step in cls.steps for spec in step.judge.machines(cls.grader_needs())]
        for spec in specs:
            machines.prepare(spec, progress)
            if spec.containerfile is not None:  # the base image was checked when it was built
                built = machines.recipe(spec).image
                check_image.refuse_broken_image(built, spec.image, progress, spec.containerfile)


def is_task_id(value: object) -> bool:
    """Whether it may be a task's id, and with underscores for dashes its folder's name."""
    return (
        isinstance(value, str)
        and len(value) <= MAX_ID_CHARS
        and _ID.fullmatch(value) is not None
        and _VERSION.search(value) is None
    )


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


def _containerfile(folder: Path, name: str) -> str | None:
    return str(folder / name) if (folder / name).is_file() else None


def _check_definition(cls: type[Task]) -> None:
    where = f"task class {cls.__qualname__} in {file_of(cls)}"
    if not is_task_id(cls.id):
        raise ConfigError(f'{where}: id {cls.id!r} must be like "q3-revenue": {ID_FORM}')
    steps = getattr(cls, "steps", ())
    if not isinstance(steps, tuple) or not steps or not all(isinstance(step, Step) for step in steps):
        raise ConfigError(f"{where}: steps must be a tuple of Step: steps = (Step(...),)")
    check_attributes(cls, Task, TaskConfig, where)
    check_grading(cls, where)
    check_tools(cls, where)
