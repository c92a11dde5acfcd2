"""Whether the task's own tools load and are fit to be called; `karotte-gym check tools` says the same alone."""

from __future__ import annotations

from collections.abc import Iterator

from karotte_gym.tools.check import check_tools as findings_about
from karotte_gym.validate.bench import Bench
from karotte_gym.validate.finding import Finding, fail, warn

__all__ = ["check_tools"]


def check_tools(bench: Bench) -> Iterator[Finding]:
    """Mistakes fail, since no environment can be made; what is merely unwise is for the author to judge."""
    for finding in findings_about(bench.task_class):
        sentence = f"{finding.place}: {finding.sentence}" if finding.place else finding.sentence
        if finding.level == "error":
            yield fail(sentence, "mend the tool; docs/tools.md says what a tool looks like")
        else:
            yield warn(sentence, "see docs/tools.md")
