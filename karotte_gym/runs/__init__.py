"""Many episodes of a model on a task: N at a time, one display, one summary, resumable."""

from karotte_gym.runs.config import RunConfig
from karotte_gym.runs.directory import RunDirectory
from karotte_gym.runs.runner import Runner, RunResult
from karotte_gym.runs.summary import Summary, summarize

__all__ = ["RunConfig", "RunDirectory", "RunResult", "Runner", "Summary", "summarize"]
