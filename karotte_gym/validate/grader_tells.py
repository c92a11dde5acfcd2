"""Whether a grader writes the right answer into its output or metadata for a submission that has nothing of it.

The student of that episode does not see it. But it stands in records and transcripts, from which prompts, reports and
training data are made.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from karotte_gym.validate.bench import Bench
from karotte_gym.validate.finding import Finding, warn
from karotte_gym.validate.haystack import Disguises, search
from karotte_gym.validate.hidden import Hidden
from karotte_gym.validate.needles import without_known

__all__ = ["answers_told"]

FIX = "let the reason say what is wrong with the submission, and print nothing of the grading data"


def answers_told(bench: Bench, metadata: Iterable[Mapping[str, Any]]) -> Iterator[Finding]:
    """`metadata` of gradings of wrong submissions, with what the script printed in it."""
    disguises = Disguises(without_known(Hidden.of(bench, None, {}).at(0), bench.task_class))
    hits = [hit for each in metadata for hit in search(disguises, json.dumps(each, default=str).encode(), "the metadata")]
    for needle in {hit.needle.text: hit.needle for hit in reversed(hits)}.values():
        yield warn(
            f"the grader puts {needle.shown} of {needle.source} into its output or metadata, whatever was handed in", FIX
        )
