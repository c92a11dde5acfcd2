"""The bench a task lies on while it is checked: its files, its solution played once, and graders to put copies before.

Everything is made when the first check asks for it, so that checks that only read files start nothing. What the
solution handed in is kept as custody took it; from it come the broken submissions, and the strings that the student
must not find.
"""

from __future__ import annotations

import contextlib
import dataclasses
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

import gymnasium as gym

from karotte_gym.agents.scripted import Played, play
from karotte_gym.env import KarotteEnv
from karotte_gym.episode import Episode
from karotte_gym.errors import CacheError, GradingError, ImageError, KarotteError, MachineError
from karotte_gym.judges.base import Evidence, Judge
from karotte_gym.redteam.pack import solution_of
from karotte_gym.sandbox import machines
from karotte_gym.sandbox.contract import MachineSpec, Sandbox, Submission
from karotte_gym.scoring import Scoring, StudentMisbehavior
from karotte_gym.task import Step, Task
from karotte_gym.validate.workers import fitting_workers

__all__ = ["OURS", "SEED", "SUBMIT", "Bench", "Reference", "episode_of", "name_of", "parts_of"]

SEED = 20_251  # of the solution's episode; any will do, as long as a second episode gets the same data
OURS = (CacheError, ImageError, MachineError)  # say nothing about the task: no disk, no emulator
SUBMIT = {"name": "submit", "arguments": {}}
Item = TypeVar("Item")
Result = TypeVar("Result")
How = Callable[[Evidence, Judge], Scoring]


@dataclasses.dataclass(frozen=True)
class Reference:
    """The solution's episode after its end. `evidence` has one entry for each step of the task that was handed in."""

    played: Played
    evidence: tuple[Evidence, ...]
    scorings: tuple[Scoring, ...]

    @property
    def score(self) -> float:
        return self.played.reward


class Bench:
    """One task under examination; `close` it. `tell` is called with a word or two when something was done."""

    def __init__(
        self,
        task_class: type[Task],
        *,
        workers: int = 2,
        config: Mapping[str, Any] | None = None,
        quick: bool = False,
        tell: Callable[[str], None] = lambda _: None,
    ):
        self.task_class = task_class
        self.config = dict(config or {})
        self.quick = quick
        self.workers = workers
        self._tell = tell
        self._stack = contextlib.ExitStack()
        self._unplayable: str | None = None
        task_class(self.config)  # a wrong configuration is refused before anything starts

    @property
    def folder(self) -> Path:
        """The environment's folder."""
        return self.task_class.folder()

    @property
    def live(self) -> bool:
        """Whether the task is graded in the student's own machine, where no made-up copy can be put before a judge."""
        return self.task_class.grade_in == "student"

    @cached_property
    def solution(self) -> list[Any]:
        """The reference solution's calls; ConfigError when there is none."""
        return solution_of(self.task_class)

    @cached_property
    def reference(self) -> Reference:
        """The solution's episode. Played once."""
        directory = Path(self._stack.enter_context(tempfile.TemporaryDirectory(prefix="karotte-validate-")))
        with self.env() as env:
            played = play(env, self.solution, seed=SEED)
            caught: list[Evidence] = env.get_wrapper_attr("evidence")
            kept = tuple(_kept(evidence, directory / str(number)) for number, evidence in enumerate(caught))
            scorings = tuple(episode_of(env).scorings)
            self.tell("solution")
            return Reference(played, kept, scorings)

    def grading_data_again(self) -> list[dict[str, bytes]]:
        """Of each step, in another episode of the solution's from the same seed."""
        with self.env() as env:
            play(env, self.solution, seed=SEED)
            caught: list[Evidence] = env.get_wrapper_attr("evidence")
            self.tell("episode")
            return [dict(evidence.grading_data) for evidence in caught]

    def unplayable(self) -> str:
        """Why there is no whole episode of the solution's, "" when there is one. It is tried once, for it takes its time."""
        if self._unplayable is None:
            try:
                missing = len(self.task_class.steps) - len(self.reference.evidence)
                self._unplayable = f"{missing} steps of it were not graded" if missing else ""
            except OURS:
                raise
            except (KarotteError, StudentMisbehavior, RuntimeError) as error:
                self._unplayable = f"{type(error).__name__}: {error}"
        return self._unplayable

    @contextlib.contextmanager
    def env(self) -> Iterator[gym.Env[Any, Any]]:
        """An environment as a trainer would make it."""
        env = gym.make(f"karotte/{self.task_class.id}", task_config=self.config or None)
        try:
            yield env
        finally:
            env.close()

    def play(self, calls: Sequence[Any], seed: int = SEED) -> Played:
        """One whole episode."""
        with self.env() as env:
            played = play(env, calls, seed=seed)
        self.tell("episode")
        return played

    def grade(self, step: int, submission: Submission, **changed: Any) -> Scoring:
        """Let the judge of a step (from 0) score a made-up submission, with all else as in the solution's episode."""
        return self.judge(self.task_class.steps[step].judge, step, submission, **changed)

    def judge(
        self, judge: Judge, step: int, submission: Submission, how: How = lambda e, j: j.judge(e), **changed: Any
    ) -> Scoring:
        """The same by a judge that is part of the step's, or in another way than its own."""
        needs = self.task_class.grader_needs()
        evidence = dataclasses.replace(
            self.reference.evidence[step],
            submission=submission,
            grader_machine=lambda: _grader_machine(judge.machine(needs)),
            machine_for=lambda part: _grader_machine(part.machine(needs)),
            **changed,
        )
        scoring = how(evidence, judge)
        self.tell("grading")
        return scoring

    def each(self, function: Callable[[Item], Result], items: Sequence[Item]) -> list[Result]:
        """`function` of every item, as many at a time as workers were asked for and fit into memory."""
        with ThreadPoolExecutor(fitting_workers(self.task_class, self.workers), thread_name_prefix="validate") as pool:
            return list(pool.map(function, items))

    def steps(self) -> list[tuple[int, Step]]:
        """The steps that the solution handed in, by number from 0."""
        return list(enumerate(self.task_class.steps))[: len(self.reference.evidence)]

    def directory(self) -> Path:
        """A private directory that lives as long as the bench."""
        return Path(self._stack.enter_context(tempfile.TemporaryDirectory(prefix="karotte-validate-")))

    def tell(self, what: str) -> None:
        """Something was done."""
        self._tell(what)

    def close(self) -> None:
        """Remove all copies; idempotent."""
        self._stack.close()


def episode_of(env: gym.Env[Any, Any]) -> Episode:
    """The environment's episode, under whatever wrappers."""
    bare = env.unwrapped
    assert isinstance(bare, KarotteEnv) and bare.episode is not None
    return bare.episode


def name_of(call: Any) -> str:
    """The tool that a script's entry calls, "" when it is no call."""
    function = call.get("function", call) if isinstance(call, dict) else {}
    return str(function.get("name")) if isinstance(function, dict) else ""


def parts_of(judge: Judge) -> Iterator[Judge]:
    """The judge, and those that it is made of."""
    yield judge
    for value in _fields(judge):
        if isinstance(value, Judge):
            yield from parts_of(value)


def _fields(judge: Judge) -> Iterator[Any]:
    known: tuple[dataclasses.Field[Any], ...] = dataclasses.fields(judge) if dataclasses.is_dataclass(judge) else ()
    for value in (getattr(judge, field.name) for field in known):
        yield from value if isinstance(value, (tuple, list)) else (value,)


def _kept(evidence: Evidence, directory: Path) -> Evidence:
    """The same with the files of the submission copied, since the episode's own go with it."""
    directory.mkdir(parents=True)
    files = []
    for file in evidence.submission.files:
        if not file.is_dir:
            copy = directory / Path(file.data_path).name
            shutil.copyfile(file.data_path, copy)
            file = dataclasses.replace(file, data_path=str(copy))
        files.append(file)
    submission = dataclasses.replace(evidence.submission, files=tuple(files), directory=str(directory))
    return dataclasses.replace(evidence, submission=submission)


@contextlib.contextmanager
def _grader_machine(spec: MachineSpec | None) -> Iterator[Sandbox]:
    if spec is None:
        raise GradingError("the judge asked for a grader machine that it had not said it needs")
    sandbox = machines.start(spec)
    try:
        yield sandbox
    finally:
        sandbox.close()
