"""Puts a made-up submission before a judge that looks at the live machine: by an episode in which it is handed in.

The solution is played up to the step's submit, so that all else in the machine is right; then root lays the broken files
over the student's, as the student's own, and the episode goes on.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium as gym

from karotte_gym.sandbox.contract import Sandbox, Submission
from karotte_gym.scoring import Scoring
from karotte_gym.validate.bench import SEED, Bench, episode_of, name_of

__all__ = ["grade_live"]


def grade_live(bench: Bench, step: int, submission: Submission) -> Scoring:
    """The scoring of that step (from 0). RuntimeError when the episode ended before it was graded."""
    with bench.env() as env:
        env.reset(seed=SEED)
        submits = 0
        for call in bench.solution:
            if _is_submit(call) and submits == step:
                _lay_over(_sandbox(env), submission, bench.task_class.steps[step].submission_paths)
            submits += _is_submit(call)
            _, _, terminated, truncated, info = env.step(call)
            if terminated or truncated or submits > step:
                break
        scorings = episode_of(env).scorings
        bench.tell("episode")
        if info.get("misbehavior"):
            return Scoring(0.0, {"reason": info["misbehavior"]})
        if len(scorings) <= step:
            raise RuntimeError(f"the solution's episode ended before step {step + 1} was graded")
        return scorings[step]


def _lay_over(sandbox: Sandbox, submission: Submission, paths: tuple[str, ...]) -> None:
    done = sandbox.run(["/bin/rm", "-rf", *paths], user="root")
    if done.exit_code != 0:
        raise RuntimeError(f"the solution's files could not be replaced: {done.output[-300:]!r}")
    for file in submission.files:
        if file.is_dir:
            sandbox.run(["/bin/mkdir", "-p", file.path], user="student")
        else:
            sandbox.put_file(file.path, Path(file.data_path).read_bytes(), mode=file.mode & 0o777, owner="student")


def _sandbox(env: gym.Env[Any, Any]) -> Sandbox:
    sandbox = episode_of(env).sandbox
    assert sandbox is not None  # an episode that goes on has a machine
    return sandbox


def _is_submit(call: Any) -> bool:
    return name_of(call) == "submit"
