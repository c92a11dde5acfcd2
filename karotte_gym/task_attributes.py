"""What may stand in a `Task` class, attribute by attribute: a wrong one is refused where it is written.

Python takes any value for a class attribute and any name. A tolerance of 1, which every score satisfies, switches a
proof off without a word; a name with a letter wrong leaves the default in force. Both would be found by nobody.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from typing import Any

from karotte_gym.config import Hardware, Limits, SubmissionLimits
from karotte_gym.errors import ConfigError

__all__ = ["ANSWER_FORMS", "check_attributes"]

TOLERANCE_BELOW = 0.5  # from there on a wrong answer of half the score would pass for the solution
# Names of `karotte_gym.validate.broken_forms`, which a task must not load; a test holds the two together.
ANSWER_FORMS = (
    "byte-order-mark",
    "utf-16",
    "quoted",
    "trailing-nul",
    "trailing-bytes",
    "twice",
    "among-noise",
    "not-a-number",
    "infinite",
    "true-for-numbers",
    "off-by-a-tenth",
    "first-half",
    "first-only",
    "first-letters",
    "first-repeated",
    "emptied",
    "more-elements",
    "more-keys",
)
MODELS = {"hardware": Hardware, "grader_hardware": Hardware, "limits": Limits, "submission_limits": SubmissionLimits}
METHODS = ("pre_hook", "grading_data", "configure_tools", "combine_scores")
ELSEWHERE = {
    "max_episode_steps": "a step's turns are limited by Step(limits=StepLimits(turns=...)), an episode's by "
    "gym.make(..., max_episode_steps=...)"
}
ALIKE = 0.85  # difflib's ratio: one letter wrong, missing or swapped in a name of this length


def check_attributes(cls: type, task: type, config: type, where: str) -> None:
    """`task` and `config` are the classes that an author derives from. ConfigError names class, file and attribute."""
    for mistake in _mistakes(cls, config):
        raise ConfigError(f"{where}: {mistake}")
    for name in _own_names(cls, task):
        if name in ELSEWHERE:
            raise ConfigError(f"{where}: a Task has no {name}: {ELSEWHERE[name]}")
        meant = difflib.get_close_matches(name, vars(task)["__annotations__"], n=1, cutoff=ALIKE)
        if meant:
            raise ConfigError(f"{where}: a Task has no {name}: did you mean {meant[0]}? (if not, begin its name with _)")


def _mistakes(cls: Any, config: type) -> Iterator[str]:
    if not isinstance(cls.system_prompt, str):
        yield f"system_prompt must be text, not {cls.system_prompt!r:.200}"
    for name, model in MODELS.items():
        value = getattr(cls, name)
        if not isinstance(value, model):
            yield f"{name} must be {model.__name__}(...), not {value!r:.200}"
    if not isinstance(cls.Config, type) or not issubclass(cls.Config, config):
        yield f"Config must be a class of TaskConfig: class Config(TaskConfig): ..., not {cls.Config!r:.200}"
    if not _is_tolerance(cls.score_tolerance):
        yield (
            f"score_tolerance must be a number from 0 to less than {TOLERANCE_BELOW}, not {cls.score_tolerance!r:.200}: "
            "scores that lie so far apart prove nothing"
        )
    if not _texts(cls.accepted_forms):
        yield f'accepted_forms must be a tuple of names: accepted_forms = ("twice",), not {cls.accepted_forms!r:.200}'
    elif unknown := [name for name in cls.accepted_forms if name not in ANSWER_FORMS]:
        yield f"accepted_forms: there is no form {unknown[0]!r:.200}; there are: {', '.join(ANSWER_FORMS)}"
    if not _texts(cls.known_to_student):
        yield f'known_to_student must be a tuple of texts: known_to_student = ("db-7",), not {cls.known_to_student!r:.200}'
    for name in METHODS:
        if not callable(getattr(cls, name)):
            yield f"{name} must be a method: def {name}(self, ...), not {getattr(cls, name)!r:.200}"


def _is_tolerance(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value < TOLERANCE_BELOW  # NaN is neither


def _texts(value: object) -> bool:
    return isinstance(value, (tuple, list)) and all(isinstance(text, str) and text for text in value)


def _own_names(cls: type, task: type) -> Iterator[str]:
    """Public plain attributes that an author's classes bring and `task` does not have."""
    for each in cls.__mro__:
        if each is task or not issubclass(each, task):
            continue  # a mixin's names are its own affair
        for name, value in vars(each).items():
            plain = not callable(value) and not hasattr(value, "__get__")
            if plain and not name.startswith("_") and not hasattr(task, name) and name not in vars(task)["__annotations__"]:
                yield name
