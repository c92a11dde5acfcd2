"""`FunctionJudge`: a Python function of the author's over the copies in custody, on the host, in a process of its own.

For what needs no machine: it reads bytes and counts, and executes nothing that was handed in. The process is there
because reading is enough to be hurt: a file can be made that takes a parser, a pattern or an unpacker forever, or all
memory. Its time and memory are bounded and it is killed, so the trainer is safe from a hang; it is no sandbox.
"""

from __future__ import annotations

import base64
import hashlib
import inspect
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from karotte_gym.errors import ConfigError, GradingError
from karotte_gym.judges.base import Evidence, GraderNeeds, Judge
from karotte_gym.judges.function_process import run_function
from karotte_gym.judges.function_reference import FunctionReference
from karotte_gym.judges.grading_code import digest_of, digest_of_modules
from karotte_gym.judges.notes import GRADING_FAULT, plain
from karotte_gym.scoring import Scoring
from karotte_gym.warned import warn

__all__ = ["FunctionJudge"]

MIB = 1024 * 1024
KEPT_REASON_CHARS = 1000


@dataclass(frozen=True)
class FunctionJudge(Judge):
    """Scores what `function` returns: a number from 0 to 1 or a `Scoring`.

    It is called with `SubmittedFiles`, and with a `FunctionContext` (the episode's grading data, chat, store and seed, and
    the task's ``root_data/``) when it has a second parameter. It stands at the top of a file, which is imported once more
    in the process that runs it. `timeout_s` and `memory_bytes` begin when it is loaded.

    What it raises, or returns in place of a score, may be the submission's doing or a mistake in it; nobody can tell, so
    it is a score of 0 with the reason *and* a RuntimeWarning. A `KarotteError` that it raises is no score. What it prints
    is thrown away. Never let it run, unpickle or import what was handed in: that is what `ExecutableJudge` and its machine
    are for.
    """

    function: Callable[..., Any]
    timeout_s: float = 30.0
    memory_bytes: int = 1024 * MIB

    def __post_init__(self) -> None:
        FunctionReference.of(self.function)
        if self._parameters() not in (1, 2):
            raise ConfigError(f"{self.function.__qualname__} must take the submitted files and, if it likes, the context")
        if type(self.timeout_s) not in (int, float) or not 0 < self.timeout_s <= 3600:
            raise ConfigError(f"timeout_s {self.timeout_s!r} must be a number from 0 to 3600 seconds")
        if type(self.memory_bytes) is not int or self.memory_bytes <= 0:
            raise ConfigError(f"memory_bytes {self.memory_bytes!r} must be a whole number of bytes")

    def criterion(self, needs: GraderNeeds) -> dict[str, str]:
        """Class, function, limits, and digests of its text, its file, the environment's Python files and its root_data."""
        reference = FunctionReference.of(self.function)
        return {
            "judge": type(self).__name__,
            "function": reference.name,
            "function_sha256": hashlib.sha256(inspect.getsource(self.function).encode()).hexdigest(),
            "code_sha256": hashlib.sha256(Path(reference.file).read_bytes()).hexdigest(),
            "modules_sha256": digest_of_modules(needs.folder),
            "data_sha256": digest_of(needs.folder / "root_data"),
            "timeout_s": repr(float(self.timeout_s)),
            "memory_bytes": str(self.memory_bytes),
        }

    def judge(self, evidence: Evidence) -> Scoring:
        """Run the function and believe what it returns."""
        word, value = run_function(self._job(evidence), self.timeout_s)
        if word == "scored":
            return Scoring(*value)
        if word == "error":
            raise GradingError(f"{self.function.__qualname__} can't judge: {value}")
        if word == "unusable":
            return Scoring(0.0, {"reason": plain(value, KEPT_REASON_CHARS)})
        if word == "memory":
            value = f"{self.function.__qualname__} needed more than {self.memory_bytes} bytes over this submission"
        if word == "raised":
            value = f"{self.function.__qualname__} raised {plain(value, KEPT_REASON_CHARS)}"
        if word == "wrong_result":
            value = f"{type(self).__name__} {self.function.__qualname__} {plain(value, KEPT_REASON_CHARS)}"
        if word in ("raised", "wrong_result"):
            warn(f"{value}; the submission scores 0")
        return Scoring(0.0, {"reason": value, GRADING_FAULT: word})

    def _parameters(self) -> int:
        """How many arguments it has to be given by position; 0 when there are others, which nobody would give."""
        needed = [each for each in inspect.signature(self.function).parameters.values() if each.default is each.empty]
        positional = [each for each in needed if each.kind in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD)]
        return len(positional) if len(positional) == len(needed) else 0

    def _job(self, evidence: Evidence) -> dict[str, Any]:
        return {
            "function": asdict(FunctionReference.of(self.function)),
            "files": [asdict(file) for file in evidence.submission.files],
            "grading_data": {name: base64.b64encode(data).decode() for name, data in evidence.grading_data.items()},
            "messages": list(evidence.messages),
            "store": dict(evidence.store),
            "seed": evidence.seed,
            "root_data": evidence.root_data,
            "arguments": self._parameters(),
            "memory_bytes": self.memory_bytes,
            "timeout_s": self.timeout_s,
        }
