"""`ExecutableJudge`: a Python script of the task's runs in a clean grader machine and writes a score.

The script is called as ``grade.py SUBMISSION_DIR ROOT_DATA_DIR RESULT_PATH``: what was handed in as ``/workdir/x`` is
at ``SUBMISSION_DIR/workdir/x``, and it writes ``{"score": 0..1, "metadata": {...}}`` to ``RESULT_PATH``. Whatever goes
wrong once the script has begun may be the submission's doing (it read a bomb, it hung, it ran out of memory), so that
is a score of 0 with the reason. What goes wrong before is ours and raises.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import Any, NoReturn

from pydantic import ValidationError

from karotte_gym.errors import CallRefused, ConfigError, GradingError, MachineDied
from karotte_gym.judges.base import Evidence, GraderNeeds, Judge
from karotte_gym.judges.grading_code import digest_of, read_script, stage
from karotte_gym.sandbox.contract import CommandResult, MachineSpec, Sandbox
from karotte_gym.sandbox.submission import send_to
from karotte_gym.scoring import MAX_METADATA_BYTES, Scoring

__all__ = ["ExecutableJudge", "read_result"]

MIB = 1024 * 1024
SUBMISSION_DIR = "/submission"
ROOT_DATA_DIR = "/root_data"  # the task's files, from the grader's drive
EPISODE_DATA_DIR = "/grading_data"  # an episode's own data, put there by the host
MAX_RESULT_BYTES = MAX_METADATA_BYTES + 1024
MAX_OUTPUT_BYTES = 16 * 1024
KEPT_OUTPUT_CHARS = 2000
MACHINE_TRIES = 2  # a grader machine that dies twice over one submission is that submission's doing


@dataclass(frozen=True, slots=True)
class ExecutableJudge(Judge):
    """Runs `script` (a file in the environment's folder) in a clean grader machine on the submission.

    Called as ``grade.py SUBMISSION_DIR ROOT_DATA_DIR RESULT_PATH``: ``/workdir/x`` as handed in is at
    ``SUBMISSION_DIR/workdir/x``; ``ROOT_DATA_DIR`` holds the task's ``root_data/``, or `Task.grading_data` in its place
    when there is any; the script writes ``{"score": 0..1, "metadata": {...}}`` as JSON to ``RESULT_PATH`` (metadata may
    be left out) and exits with 0. Anything else, also running longer than `timeout_s` or beyond `memory_bytes`, is a
    score of 0 with the reason in the metadata.
    """

    script: str = "grade.py"
    timeout_s: float = 60.0
    memory_bytes: int = 256 * MIB

    def __post_init__(self) -> None:
        if not isinstance(self.script, str) or "/" in self.script or not self.script.endswith(".py"):
            raise ConfigError(f'script {self.script!r} must be a file name in the environment\'s folder: "grade.py"')
        if type(self.timeout_s) not in (int, float) or not 0 < self.timeout_s <= 3600:
            raise ConfigError(f"timeout_s {self.timeout_s!r} must be a number from 0 to 3600 seconds")
        if type(self.memory_bytes) is not int or self.memory_bytes <= 0:
            raise ConfigError(f"memory_bytes {self.memory_bytes!r} must be a whole number of bytes")

    def machine(self, needs: GraderNeeds) -> MachineSpec:
        """A grader machine with the task's root_data and this script."""
        code = read_script(needs.folder / self.script)
        drive = (*needs.drive, ("grade", stage(self.script, code)))
        return MachineSpec(role="grader", hardware=needs.hardware, drive=drive)

    def criterion(self, needs: GraderNeeds) -> dict[str, str]:
        """Class, script, and digests of script and data."""
        return {
            "judge": type(self).__name__,
            "script": self.script,
            "code_sha256": hashlib.sha256(read_script(needs.folder / self.script)).hexdigest(),
            "data_sha256": digest_of(needs.folder / "root_data"),
        }

    def judge(self, evidence: Evidence) -> Scoring:
        """Run the script; a machine that dies under it is tried once more, so that a fault of the host is no zero."""
        for _ in range(MACHINE_TRIES):
            with evidence.grader_machine() as sandbox:
                root_data_dir = _hand_over(sandbox, evidence)
                try:
                    done, result = self._run(sandbox, root_data_dir)
                except MachineDied as error:
                    died = error
                    continue
                return read_result(done, result)
        return Scoring(0.0, {"reason": f"the grader machine ended while it graded this submission: {died}"})

    def _run(self, sandbox: Sandbox, root_data_dir: str) -> tuple[CommandResult, bytes]:
        try:
            return sandbox.score(
                f"/grade/{self.script}",
                submission_dir=SUBMISSION_DIR,
                root_data_dir=root_data_dir,
                timeout_s=self.timeout_s,
                memory_bytes=self.memory_bytes,
                max_result_bytes=MAX_RESULT_BYTES,
                max_output_bytes=MAX_OUTPUT_BYTES,
            )
        except CallRefused as error:
            raise GradingError(f"the grader machine refused to run {self.script} ({error.kind}): {error}") from error


def _hand_over(sandbox: Sandbox, evidence: Evidence) -> str:
    """Puts submission and episode data into the machine. None of it runs yet, so a failure here is ours."""
    try:
        send_to(sandbox, evidence.submission, SUBMISSION_DIR)
        for name, data in evidence.grading_data.items():
            sandbox.put_file(f"{EPISODE_DATA_DIR}/{name}", data, mode=0o600)
    except (CallRefused, MachineDied) as error:
        raise GradingError(f"the submission could not be put into the grader machine: {error}") from error
    return EPISODE_DATA_DIR if evidence.grading_data else ROOT_DATA_DIR


def read_result(done: CommandResult, result: bytes) -> Scoring:
    """The script's result, believed only when it ended well and wrote exactly what was asked for."""
    if done.timed_out:
        return _zero("the scoring script ran out of time", done)
    if done.exit_code != 0:
        return _zero(f"the scoring script failed with exit code {done.exit_code}", done)
    if not result:
        return _zero(f"the scoring script wrote no result{': ' + done.note if done.note else ''}", done)
    try:
        value = json.loads(result.decode("utf-8"), parse_constant=_refuse, object_pairs_hook=_unique)
        if not isinstance(value, dict) or not {"score"} <= value.keys() <= {"score", "metadata"}:
            raise ValueError('a result is {"score": ..., "metadata": {...}}')
        return Scoring(value["score"], value.get("metadata", {}))
    except (ValidationError, ValueError, RecursionError) as error:
        sentence = error.errors()[0]["msg"] if isinstance(error, ValidationError) else str(error)
        return _zero(f"the scoring script wrote a wrong result: {sentence}", done)


def _zero(reason: str, done: CommandResult) -> Scoring:
    output = done.output.decode("utf-8", "replace")[-KEPT_OUTPUT_CHARS:]
    return Scoring(0.0, {"reason": reason, "output": output} if output else {"reason": reason})


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no JSON")


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len({key for key, _ in pairs}) != len(pairs):
        raise ValueError("a key comes twice")
    return dict(pairs)
