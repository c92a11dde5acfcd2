"""`RegexJudge`: a pattern in what the student said or in a file that it handed in.

The text is hostile: against an engine that backtracks, a few dozen well-chosen letters cost more time than there is.
RE2 looks at each letter once, whatever the pattern, so nothing has to be killed; the price is that it knows neither
look-around nor back-references, and says so when the judge is made.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from karotte_gym.errors import ConfigError
from karotte_gym.judges.base import Evidence, GraderNeeds, Judge
from karotte_gym.judges.messages import student_texts
from karotte_gym.judges.notes import plain
from karotte_gym.judges.submitted_files import SubmissionUnusable, SubmittedFiles
from karotte_gym.scoring import Scoring

__all__ = ["RegexJudge"]

MESSAGES = "messages"
KEPT_MATCH_CHARS = 200


@dataclass(frozen=True)
class RegexJudge(Judge):
    r"""1.0 when `pattern` (RE2's syntax) is found, else 0.0.

    `where` is ``"messages"`` for the student's own words in this step of the task (never the task's prompt, never a
    tool's result), or the path of a submitted file. Each message is looked at alone, up to `max_bytes`; a file with
    more is a score of 0. The whole of a text is meant only by ``\A...\z``: otherwise a student that lists every
    possible answer has also given the right one.
    """

    pattern: str
    where: str = MESSAGES
    ignore_case: bool = False
    max_bytes: int = 1024 * 1024

    def __post_init__(self) -> None:
        if not isinstance(self.pattern, str) or not self.pattern:
            raise ConfigError(f"pattern must be text to look for, not {self.pattern!r}; an empty one is found everywhere")
        if not isinstance(self.where, str) or (self.where != MESSAGES and not self.where.startswith("/workdir/")):
            raise ConfigError(f'where must be "messages" or a submitted file such as "/workdir/x.txt", not {self.where!r}')
        if type(self.max_bytes) is not int or self.max_bytes <= 0:
            raise ConfigError(f"max_bytes {self.max_bytes!r} must be a whole number of bytes")
        self._compiled()

    def criterion(self, needs: GraderNeeds) -> dict[str, str]:  # noqa: ARG002
        """Class, pattern and place."""
        case = {"ignore_case": "true"} if self.ignore_case else {}
        return {"judge": type(self).__name__, "pattern": self.pattern, "where": self.where} | case

    def judge(self, evidence: Evidence) -> Scoring:
        """Look for the pattern."""
        compiled = self._compiled()
        try:
            for text in self._texts(evidence):
                # RE2 reads UTF-8, which has no lone surrogates; JSON from a model may
                match = compiled.search(text.encode("utf-8", "replace").decode("utf-8"))
                if match is not None:
                    return Scoring(1.0, {"where": self.where, "match": plain(match.group(), KEPT_MATCH_CHARS)})
        except SubmissionUnusable as error:
            return Scoring(0.0, {"where": self.where, "reason": str(error)})
        return Scoring(0.0, {"where": self.where, "reason": "the pattern was not found"})

    def _texts(self, evidence: Evidence) -> Iterator[str]:
        if self.where == MESSAGES:
            yield from (text[: self.max_bytes] for text in student_texts(evidence.messages))
        else:
            data = SubmittedFiles(evidence.submission).read_bytes(self.where, self.max_bytes)
            yield data.decode("utf-8", "replace")

    def _compiled(self) -> Any:
        """The pattern; RE2 remembers it. Imported here, so that importing this package loads no engine."""
        import re2

        options = re2.Options()
        options.log_errors = False  # it would print them beside the exception
        options.case_sensitive = not self.ignore_case
        try:
            return re2.compile(self.pattern, options=options)
        except re2.error as error:
            said = error.args[0].decode("utf-8", "replace") if isinstance(error.args[0], bytes) else str(error)
            raise ConfigError(
                f"pattern {self.pattern!r} is none that RE2 takes ({said}); look-around and back-references do not exist"
            ) from None
