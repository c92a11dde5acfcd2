"""`warn`: tells an author what failed in the middle of an episode, which goes on."""

from __future__ import annotations

import logging
import warnings

__all__ = ["warn"]

log = logging.getLogger(__name__)


def warn(sentence: str) -> None:
    """A RuntimeWarning; where warnings are errors a line of the log, for what a student made fail must end no run."""
    try:
        warnings.warn(sentence, RuntimeWarning, stacklevel=3)
    except RuntimeWarning:
        log.warning("%s", sentence)
