"""`RegexJudge`: a pattern in what the student said at its submit or in a file that it handed in.

The text is hostile: against an engine that backtracks, a few dozen well-chosen letters cost more time than there is.
RE2 looks at each letter once, whatever the pattern, so nothing has to be killed; the price is that it knows neither
look-around nor back-references, and says so when the judge is made.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from karotte_gym.errors import ConfigError
from karotte_gym.judges.base import Evidence, GraderNeeds, Judge
from karotte_gym.judges.messages import submitted_message
from karotte_gym.judges.notes import plain
from karotte_gym.judges.submitted_files import SubmissionUnusable, SubmittedFiles
from karotte_gym.scoring import Scoring

__all__ = ["RegexJudge"]

MESSAGES = "messages"
KEPT_MATCH_CHARS = 200
ANY_TEXTS = ("a 1", "ab", "\x01\x02")  # a pattern that asks for something is not found in all, nor an empty text in any


@dataclass(frozen=True)
class RegexJudge(Judge):
    r"""1.0 when `pattern` (RE2's syntax) is found, else 0.0.

    `where` is ``"messages"`` for the message of the `submit` that ended this step of the task, or the path of a
    submitted file. Nothing that was said before counts, for whoever may answer many times has guessed right once; nor
    do the task's prompt and tools' results. A text with more than `max_bytes` is a score of 0. The whole of it is meant
    only by ``\A...\z``: otherwise a student that lists every possible answer has also given the right one.
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
        compiled = self._compiled()
        found = [compiled.search(text) for text in ANY_TEXTS]
        if any(match and not match.group() for match in found) or (all(found) and compiled.search("")):
            raise ConfigError(f"pattern {self.pattern!r} matches the empty text, which is found everywhere")

    def criterion(self, needs: GraderNeeds) -> dict[str, str]:  # noqa: ARG002
        """Class, pattern, place and bound."""
        return {
            "judge": type(self).__name__,
            "pattern": self.pattern,
            "where": self.where,
            "max_bytes": str(self.max_bytes),
            **({"ignore_case": "true"} if self.ignore_case else {}),
        }

    def judge(self, evidence: Evidence) -> Scoring:
        """Look for the pattern."""
        compiled = self._compiled()
        try:
            match = compiled.search(self._text(evidence))
        except SubmissionUnusable as error:
            return Scoring(0.0, {"where": self.where, "reason": str(error)})
        if match is None:
            return Scoring(0.0, {"where": self.where, "reason": "the pattern was not found"})
        return Scoring(1.0, {"where": self.where, "match": plain(match.group(), KEPT_MATCH_CHARS)})

    def _text(self, evidence: Evidence) -> str:
        """The one text that is looked at; SubmissionUnusable when there is none or it is too large."""
        if self.where != MESSAGES:
            return SubmittedFiles(evidence.submission).read_bytes(self.where, self.max_bytes).decode("utf-8", "replace")
        # RE2 reads UTF-8, which has no lone surrogates; JSON from a model may
        data = submitted_message(evidence.messages).encode("utf-8", "replace")
        if not data:
            raise SubmissionUnusable("nothing was said with submit")
        if len(data) > self.max_bytes:
            raise SubmissionUnusable(f"the message of submit has {len(data)} bytes; {self.max_bytes} are read")
        return data.decode("utf-8")

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
