"""Path patterns for leading components: which paths are chosen, and which directories may hold chosen ones."""

from __future__ import annotations

import re
from collections.abc import Sequence
from fnmatch import translate

from .nofollow import split

__all__ = ["Selection"]

Matcher = list[re.Pattern[str]]  # one for each component


class Selection:
    """`include` (empty: everything) less `exclude`. Paths are given as lists of components from the root."""

    def __init__(self, include: Sequence[str] = (), exclude: Sequence[str] = ()):
        self._include = [_compile(pattern) for pattern in include]
        self._exclude = [_compile(pattern) for pattern in exclude]
        # so many leading components decide; the rest of a path of thousands need not be looked at
        self.longest = max((len(matcher) for matcher in self._include + self._exclude), default=0)
        self.everywhere = not self._include

    def excluded(self, parts: Sequence[str]) -> bool:
        """Neither this path nor anything below is to be touched."""
        return any(_covers(matcher, parts) for matcher in self._exclude)

    def chosen(self, parts: Sequence[str]) -> bool:
        """This path is to be removed when it is the user's."""
        return self.everywhere or any(_covers(matcher, parts) for matcher in self._include)

    def leads_on(self, parts: Sequence[str]) -> bool:
        """Something below this directory may be chosen."""
        return self.everywhere or any(_agrees(matcher, parts) for matcher in self._include)

    def concerns(self, parts: Sequence[str]) -> bool:
        """Something at or below this directory may have to be removed."""
        return self.leads_on(parts) and not self.excluded(parts)

    def spares_below(self, parts: Sequence[str]) -> bool:
        """Something below this directory may be excluded."""
        return any(_agrees(matcher, parts) for matcher in self._exclude)


def _compile(pattern: str) -> Matcher:
    return [] if pattern == "/" else [re.compile(translate(part), re.DOTALL) for part in split(pattern.rstrip("/"))]


def _covers(matcher: Matcher, parts: Sequence[str]) -> bool:
    return len(parts) >= len(matcher) and _agrees(matcher, parts)


def _agrees(matcher: Matcher, parts: Sequence[str]) -> bool:
    return all(one.match(part) for one, part in zip(matcher, parts, strict=False))
