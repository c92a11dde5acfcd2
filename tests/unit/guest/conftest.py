"""What the tests of the guest share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from host_session import HostSession, host_shell

from karotte_gym.guest.shell import ShellSession


@pytest.fixture
def made() -> Iterator[tuple[ShellSession, HostSession, str]]:
    """A shell on this host, its session, and a directory of its user's."""
    with host_shell() as shell:
        yield shell
