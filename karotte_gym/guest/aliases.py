"""The other names of what lies in a mount: the same file system may be mounted at several places.

The scratch disk is: the agent has all of it in one place, and /workdir, /tmp and /var/tmp are directories of it. What is
excluded by the name that everybody uses must not be removed by a name that nobody knows.
"""

from __future__ import annotations

from collections.abc import Sequence

from .mounts import Mount

__all__ = ["Aliases"]


class Aliases:
    """Translates paths of one mount into those of the others of the same file system."""

    def __init__(self, mount: Mount, mounts: Sequence[Mount]):
        self._mount = mount
        same = {(other.inner, other.parts) for other in mounts if other.device == mount.device}
        self._others = sorted(same - {(mount.inner, mount.parts)})

    def settled_at(self, longest: int) -> int:
        """From this many components of a path on, all its names have `longest` components or can't be its names."""
        inner, parts = self._mount.inner, self._mount.parts
        needed = [max(longest + len(other) - len(names), len(other)) for other, names in self._others]
        return max([longest, *(len(parts) - len(inner) + each for each in needed)])

    def of(self, path: Sequence[str]) -> list[list[str]]:
        """The other names of a path that is given by this mount's name."""
        inside = [*self._mount.inner, *path[len(self._mount.parts) :]]
        return [[*names, *inside[len(inner) :]] for inner, names in self._others if tuple(inside[: len(inner)]) == inner]

    def is_mounted(self, path: Sequence[str]) -> bool:
        """This directory is the top of another mount, which would lead nowhere without it."""
        inside = (*self._mount.inner, *path[len(self._mount.parts) :])
        return any(inside == inner for inner, _ in self._others)

    def familiar(self, path: str) -> str:
        """The path by the name of the closest mount: /workdir/x and not /somewhere/of/the/agents/workdir/x."""
        top = f"{self._mount.path.rstrip('/')}/"
        own = len(self._mount.inner)
        for inner, names in sorted(self._others, key=lambda other: -len(other[0])):
            prefix = top + "/".join(inner[own:])
            if len(inner) > own and inner[:own] == self._mount.inner and f"{path}/".startswith(f"{prefix}/"):
                return f"/{'/'.join(names)}{path[len(prefix) :]}"
        return path
