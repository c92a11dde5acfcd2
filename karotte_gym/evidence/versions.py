"""Which software made a record on the host; what ran the machine is told by `Sandbox.versions`."""

from __future__ import annotations

import functools
import platform
from importlib import metadata

__all__ = ["versions_here"]


@functools.cache
def versions_here() -> dict[str, str]:
    """karotte-gym, Gymnasium and Python of this process."""
    packages = {name: metadata.version(name) for name in ("karotte-gym", "gymnasium")}
    return {**packages, "python": platform.python_version()}
