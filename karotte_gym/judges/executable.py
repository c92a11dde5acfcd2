"""`ExecutableJudge`: a Python script of the task's runs in a clean grader machine and writes a score.

The script is called as ``grade.py SUBMISSION_DIR ROOT_DATA_DIR RESULT_PATH``: what was handed in as ``/workdir/x`` is
at ``SUBMISSION_DIR/workdir/x``, and it writes ``{"score": 0..1, "metadata": {...}}`` to ``RESULT_PATH``. Whatever goes
wrong once the script has begun may be the submission's doing (it read a bomb, it hung, it ran out of memory), so that
is a score of 0 with the reason. What goes wrong before is ours and raises, unless a machine that refuses this submission
takes an empty one.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace

from pydantic import ValidationError

from karotte_gym.errors import CallRefused, ConfigError, GradingError, MachineDied
from karotte_gym.judges.base import Evidence, GraderNeeds, Judge
from karotte_gym.judges.grading_code import digest_of, read_script, stage
from karotte_gym.judges.notes import GRADING_FAULT
from karotte_gym.sandbox.contract import CommandResult, MachineSpec, Sandbox, Submission
from karotte_gym.sandbox.image_extra import extra_of
from karotte_gym.sandbox.submission import send_to
from karotte_gym.scoring import MAX_METADATA_BYTES, Scoring
from karotte_gym.strict_json import strict_json

__all__ = ["GRADING_FAULT", "ExecutableJudge", "read_result"]

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
    when there is any; the script writes ``{"score": 0..1, "metadata": {...}, "stop_task": false}`` as JSON to
    ``RESULT_PATH`` (all but the score may be left out) and exits with 0. Anything else, also running longer than
    `timeout_s` or beyond `memory_bytes`, is a score of 0 with the reason in the metadata. The end of what the script
    printed is kept as ``output`` there, where there is room.

    With a `threshold` the score is 1.0 from there on and 0.0 below; ``raw_score`` in the metadata is the script's own.
    """

    script: str = "grade.py"
    timeout_s: float = 60.0
    memory_bytes: int = 256 * MIB
    threshold: float | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.script, str) or "/" in self.script or not self.script.endswith(".py"):
            raise ConfigError(f'script {self.script!r} must be a file name in the environment\'s folder: "grade.py"')
        if type(self.timeout_s) not in (int, float) or not 0 < self.timeout_s <= 3600:
            raise ConfigError(f"timeout_s {self.timeout_s!r} must be a number from 0 to 3600 seconds")
        if type(self.memory_bytes) is not int or self.memory_bytes <= 0:
            raise ConfigError(f"memory_bytes {self.memory_bytes!r} must be a whole number of bytes")
        if self.threshold is not None and (type(self.threshold) not in (int, float) or not 0 < self.threshold <= 1):
            raise ConfigError(f"threshold {self.threshold!r} must be a number over 0 and up to 1, or None")

    @property
    def grader_memory_bytes(self) -> int:
        """The script's."""
        return self.memory_bytes

    def machine(self, needs: GraderNeeds) -> MachineSpec:
        """A grader machine with the task's root_data and this script."""
        code = read_script(needs.folder / self.script)
        drive = (*needs.drive, ("grade", stage(self.script, code)))
        return MachineSpec(role="grader", hardware=needs.hardware, drive=drive, containerfile=needs.containerfile)

    def criterion(self, needs: GraderNeeds) -> dict[str, str]:
        """Class, script, limits, and digests of script, data and the grader's own image."""
        extra = extra_of(needs.containerfile)
        return {
            "judge": type(self).__name__,
            "script": self.script,
            "code_sha256": hashlib.sha256(read_script(needs.folder / self.script)).hexdigest(),
            "data_sha256": digest_of(needs.folder / "root_data"),
            "timeout_s": repr(float(self.timeout_s)),
            "memory_bytes": str(self.memory_bytes),
            **({} if extra is None else {"image_sha256": extra.digest}),
            **({} if self.threshold is None else {"threshold": repr(self.threshold)}),
        }

    def judge(self, evidence: Evidence) -> Scoring:
        """Run the script; a machine that dies under it is tried once more, so that a fault of the host is no zero."""
        for _ in range(MACHINE_TRIES):
            with evidence.grader_machine() as sandbox:
                at = "hand_over"
                try:
                    root_data_dir = _hand_over(sandbox, evidence, SUBMISSION_DIR)
                    at = "score"
                    return self._scored(sandbox, SUBMISSION_DIR, root_data_dir)
                except GradingError as error:
                    refused = error
                    break
                except MachineDied as error:
                    died = error
        else:
            reason = f"the grader machine ended while it graded this submission: {died}"
            return Scoring(0.0, {"reason": reason, GRADING_FAULT: "machine"})
        self._prove_that_nothing_would_do(evidence, at)
        return Scoring(0.0, {"reason": str(refused), GRADING_FAULT: at})

    def _prove_that_nothing_would_do(self, evidence: Evidence, at: str) -> None:
        """A machine takes and grades an empty submission? Then what was handed in is to blame. Else GradingError."""
        with evidence.grader_machine() as sandbox:
            root_data_dir = _hand_over(sandbox, replace(evidence, submission=Submission()), SUBMISSION_DIR)
            try:
                if at == "score":
                    self._scored(sandbox, SUBMISSION_DIR, root_data_dir)
            except MachineDied as error:
                raise GradingError(f"a grader machine ended while it graded an empty submission: {error}") from error

    def judge_in(self, sandbox: Sandbox, evidence: Evidence, submission_dir: str) -> Scoring:
        """As `judge`, once, in this machine and with the copy in another directory: a sound script does not mind."""
        return self._scored(sandbox, submission_dir, _hand_over(sandbox, evidence, submission_dir))

    def _scored(self, sandbox: Sandbox, submission_dir: str, root_data_dir: str) -> Scoring:
        try:
            done, result = sandbox.score(
                f"/grade/{self.script}",
                submission_dir=submission_dir,
                root_data_dir=root_data_dir,
                timeout_s=self.timeout_s,
                memory_bytes=self.memory_bytes,
                max_result_bytes=MAX_RESULT_BYTES,
                max_output_bytes=MAX_OUTPUT_BYTES,
            )
        except CallRefused as error:
            raise GradingError(f"the grader machine refused to run {self.script} ({error.kind}): {error}") from error
        return read_result(done, result, self.threshold)


def _hand_over(sandbox: Sandbox, evidence: Evidence, submission_dir: str) -> str:
    """Puts submission and episode data into the machine. GradingError when it takes them not; none of it runs yet."""
    try:
        send_to(sandbox, evidence.submission, submission_dir)
        for name, data in evidence.grading_data.items():
            sandbox.put_file(f"{EPISODE_DATA_DIR}/{name}", data, mode=0o600)
    except (CallRefused, MachineDied) as error:
        raise GradingError(f"the submission could not be put into the grader machine: {error}") from error
    return EPISODE_DATA_DIR if evidence.grading_data else ROOT_DATA_DIR


def read_result(done: CommandResult, result: bytes, threshold: float | None = None) -> Scoring:
    """The script's result, believed only when it ended well and wrote exactly what was asked for."""
    if done.timed_out:
        return _zero("timeout", "the scoring script ran out of time", done)
    if done.exit_code != 0:
        return _zero("exit", f"the scoring script failed with exit code {done.exit_code}", done)
    if not result:
        return _zero("no_result", f"the scoring script wrote no result{': ' + done.note if done.note else ''}", done)
    try:
        value = strict_json(result.decode("utf-8"))
        if not isinstance(value, dict) or not {"score"} <= value.keys() <= {"score", "metadata", "stop_task"}:
            raise ValueError('a result is {"score": ..., "metadata": {...}}')
        scoring = Scoring(value["score"], value.get("metadata", {}), value.get("stop_task", False))
        return _with_output(scoring if threshold is None else _passed(scoring, threshold), done)
    except (ValidationError, ValueError, RecursionError) as error:
        sentence = error.errors()[0]["msg"] if isinstance(error, ValidationError) else str(error)
        return _zero("wrong_result", f"the scoring script wrote a wrong result: {sentence}", done)


def _passed(scoring: Scoring, threshold: float) -> Scoring:
    score = 1.0 if scoring.score >= threshold else 0.0
    return Scoring(score, {**scoring.metadata, "raw_score": scoring.score}, scoring.stop_task)


def _with_output(scoring: Scoring, done: CommandResult) -> Scoring:
    """The script's output beside its own notes, which come first: they may have the name or the room already."""
    output = _output(done)
    if not output or "output" in scoring.metadata:
        return scoring
    try:
        return Scoring(scoring.score, {**scoring.metadata, "output": output}, scoring.stop_task)
    except ValidationError:
        return scoring  # its notes alone are as long as notes may be


def _zero(fault: str, reason: str, done: CommandResult) -> Scoring:
    output = _output(done)
    return Scoring(0.0, {"reason": reason, GRADING_FAULT: fault} | ({"output": output} if output else {}))


def _output(done: CommandResult) -> str:
    return done.output.decode("utf-8", "replace")[-KEPT_OUTPUT_CHARS:]
