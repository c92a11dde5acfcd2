"""All probes by name, and who runs which.

File probes look at the tree twice: as the student in the session, where the machine covers things up, and as root on
the image itself, where a cover that is forgotten one day would show them. What only root may read (passwords, homes,
logs) is looked at by root alone. Confinement probes attempt things, as the student only.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from . import (
    accounts,
    credentials,
    devices,
    grader_data,
    kernel,
    leftovers,
    network,
    permissions,
    processes,
    programs,
    shells,
    system_calls,
)
from .tree import Probe

__all__ = ["ALL", "AS_ROOT", "AS_STUDENT", "CONFINEMENT"]


def _by_name(probes: Iterable[Probe]) -> Mapping[str, Probe]:
    named: dict[str, Probe] = {}
    for probe in probes:
        name = probe.__name__.replace("_", "-")
        if name in named:
            raise ValueError(f"two probes are called {name}")
        named[name] = probe
    return named


_FILES = (*permissions.PROBES, *accounts.PROBES, *programs.PROBES, *grader_data.PROBES, *shells.PROBES)
_SECRETS = (*accounts.ROOT_PROBES, *credentials.ROOT_PROBES, *leftovers.ROOT_PROBES)
_READABLE_SECRETS = credentials.ROOT_PROBES
_STARTS = (*grader_data.LIVE_PROBES, *shells.LIVE_PROBES)

CONFINEMENT = _by_name(
    (*system_calls.LIVE_PROBES, *kernel.LIVE_PROBES, *processes.LIVE_PROBES, *devices.LIVE_PROBES, *network.LIVE_PROBES)
)
AS_STUDENT = {**_by_name((*_FILES, *_READABLE_SECRETS, *_STARTS)), **CONFINEMENT}
AS_ROOT = _by_name((*_FILES, *_SECRETS))
ALL = {**AS_STUDENT, **AS_ROOT}
