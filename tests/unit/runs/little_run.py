"""Runs episodes of the little environment: the same code as the command, as a process that signals can be sent to.

``python little_run.py RUN_DIR API_BASE EPISODES [SECONDS_PER_COMMAND]``; the key comes from OPENAI_API_KEY. Each
environment that has been stepped leaves a file in RUN_DIR.steps.
"""

from __future__ import annotations

import sys
import threading
from pathlib import Path
from typing import Any

from karotte_gym.cli.model_run import run_config
from karotte_gym.runs.config import RunConfig
from karotte_gym.runs.directory import RunDirectory
from tests.unit.agents.little_env import LittleEnv


class SlowEnv(LittleEnv):
    """Whose commands take time unless it is closed, as a machine's do; closing counts as its end."""

    def __init__(self, seconds: float, marks: Path):
        super().__init__()
        self.seconds, self.marks = seconds, marks
        self.gone = threading.Event()

    def step(self, action: Any) -> Any:
        self.marks.mkdir(exist_ok=True)
        (self.marks / str(id(self))).touch()
        if self.gone.wait(self.seconds):
            raise RuntimeError("the environment was closed under a call")
        return super().step(action)

    def close(self) -> None:
        super().close()
        self.gone.set()


def main() -> int:
    directory, base, episodes = sys.argv[1:4]
    seconds = float(sys.argv[4]) if len(sys.argv) > 4 else 0.0
    settings = {"task": "little", "model": "openai/some-model", "episodes": int(episodes), "api_base": base}
    settings["retries"] = {"max_wait_s": 0.05}
    settings["timeout_s"] = 5
    marks = Path(f"{directory}.steps")
    return run_config(RunConfig.build(settings), RunDirectory(Path(directory)), lambda: SlowEnv(seconds, marks))


if __name__ == "__main__":
    sys.exit(main())
