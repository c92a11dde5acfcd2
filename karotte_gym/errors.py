"""Everything that is *not* the student's doing and therefore raises.

::

    KarotteError
    ├── ConfigError     what the user wrote: a task, a file, an option, an environment variable
    ├── CacheError      the cache directory: not writable, no space, a foreign file
    ├── ImageError      building or checking an image
    ├── MachineError    a machine could not be started, restored or asked, and no student was in it yet
    ├── MachineDied     a running machine ended, fell silent or sent bytes that are no frame
    ├── CallRefused     the agent inside refused a call (`kind` says why); the machine is alive
    ├── GradingError    grading failed for a reason that no submission can cause
    └── EvidenceError   a transcript or record can't be written, or what is read is none

What the student can cause is `karotte_gym.scoring.StudentMisbehavior`, which is a score and no error. `MachineDied`
stands between the two: `KarotteEnv` turns it into misbehaviour once a student's session has started in that machine,
and lets it raise before. Every message says what happened and what to do about it.
"""

from __future__ import annotations

__all__ = [
    "CacheError",
    "CallRefused",
    "ConfigError",
    "EvidenceError",
    "GradingError",
    "ImageError",
    "KarotteError",
    "MachineDied",
    "MachineError",
]


class KarotteError(Exception):
    """Root of everything this package raises on purpose."""


class ConfigError(KarotteError):
    """Something the user wrote is wrong; the message names it and the correction."""


class CacheError(KarotteError):
    """The cache directory can't be used; the message names the path and the remedy."""


class ImageError(KarotteError):
    """An image could not be built or did not pass its checks."""


class MachineError(KarotteError):
    """A machine could not be started or restored."""


class MachineDied(KarotteError):
    """A running machine is gone. `cause` is "exited", "silent", "protocol" or "starved" (by the host)."""

    def __init__(self, message: str, *, cause: str):
        super().__init__(message)
        self.cause = cause


class CallRefused(KarotteError):
    """The agent refused a call. `kind` is a stable word of the agent's, e.g. "no-session", "bad-params", "custody"."""

    def __init__(self, kind: str, message: str):
        super().__init__(message)
        self.kind = kind


class GradingError(KarotteError):
    """Grading failed and no submission can be the reason; the episode has no score."""


class EvidenceError(KarotteError):
    """What an episode leaves can't be written, or a file that should be such a thing is not."""
