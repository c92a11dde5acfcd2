"""``incident-report``: find out from logs why requests failed, then write it up so that others can act on it.

The logs are drawn from the episode's seed, and what happened exists only on the host and, while it grades, in the grader
machine. The second step's facts are checked by a script; whether the text explains anything, a language model can be
asked: ``task_config={"judge_model": "..."}``. Without one only the facts count, and the record says so.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from karotte_gym.envs.incident_report.logs import CAUSES, SERVICES, Incident, draw_incident
from karotte_gym.envs.incident_report.rubric import JUDGE_MODEL, ConfiguredRubric

from karotte_gym import ExecutableJudge, Sandbox, Scoring, Step, Task, TaskConfig

DATA = "/workdir/data"
ANSWER = f"{DATA}/answer.json"
REPORT = f"{DATA}/report.md"


class IncidentReport(Task):
    """Two steps: the cause, then the report. A report of a wrong cause is worth nothing, so the scores multiply."""

    id = "incident-report"
    known_to_student = (*CAUSES, *SERVICES)
    # Some editors put a mark before what they save; and keys that nobody asked for say nothing wrong.
    accepted_forms = ("byte-order-mark", "more-keys")
    steps = (
        Step(
            instructions=(
                "In the morning of 14 March 2026 many requests to a shop failed. The logs of its services are in "
                f"{DATA}/logs; {DATA}/handbook.md says who calls whom, how to read a line, and which causes there can be. "
                "Most of the requests that the gateway answered with 502 failed for one cause in one service. Find it.\n"
                f'Write {ANSWER}: {{"cause": its id, "service": the service at fault, "first_failure": the time, as in the '
                "log, of that service's first ERROR for that cause in a request that the gateway answered with 502}. Then "
                "submit."
            ),
            submission_paths=(ANSWER,),
            judge=ExecutableJudge("grade_cause.py", timeout_s=30.0),
        ),
        Step(
            instructions=(
                f"Now write the report for the people who have to prevent it the next time: {REPORT}, Markdown, at most "
                "4000 characters, with the headings `## Summary`, `## Timeline`, `## Cause` and `## Impact` in this order, "
                "and some sentences of your own below each. Above them may stand a title, one line that begins with `# `, and "
                "after Summary sections of your own with other headings.\n"
                "Below Cause: a line `Cause: <id>` and a line `Service: <service>`, each once in the report, how the failure "
                "spread to the gateway, and one line of that service's log that shows the cause in a failed request, word "
                "for word, on a line of its own that begins with `> `. Below Timeline: a line "
                "`First failure: <time>`, once in the report, with the time as in the log. Below Impact: how many requests "
                "failed for this cause, as `<number> failed requests`; no other number is given in that form anywhere. "
                "Named are no other cause's id, and no services but the one at fault, those that it made fail, and the "
                "gateway. Not more than three lines of logs are quoted in the whole report.\n"
                f"{ANSWER} is handed in with it once more. Then submit."
            ),
            submission_paths=(ANSWER, REPORT),
            judge=ExecutableJudge("grade_report.py", timeout_s=30.0) & ConfiguredRubric(),
        ),
    )

    class Config(TaskConfig):
        """`judge_model`: litellm's name of the model that judges the report; "" leaves it to the facts."""

        judge_model: str = ""

    config: Config

    def __init__(self, config: Mapping[str, Any] | None = None):
        super().__init__(config)
        self._incident: Incident | None = None

    def pre_hook(self, sandbox: Sandbox, rng: np.random.Generator) -> None:
        """Puts the logs there; what they mean stays here."""
        self._incident = draw_incident(rng)
        self.store[JUDGE_MODEL] = self.config.judge_model
        for service, text in self._incident.logs.items():
            sandbox.put_file(f"{DATA}/logs/{service}.log", text.encode(), mode=0o644, owner="student")

    def grading_data(self) -> Mapping[str, bytes]:
        """What happened."""
        if self._incident is None:
            return {}
        return {"incident.json": json.dumps(self._incident.facts()).encode()}

    def combine_scores(self, scorings: Sequence[Scoring]) -> float:
        """The product of both steps; whoever leaves after the first has reported nothing."""
        return scorings[0].score * scorings[1].score if len(scorings) == len(self.steps) else 0.0
