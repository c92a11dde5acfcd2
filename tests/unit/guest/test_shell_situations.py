"""The table of situations, played with this host's bash; `tests/machine/test_shell_table.py` plays it in a machine."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from as_user import needs_root
from host_session import HostSession, host_shell
from shell_situations import SITUATIONS, Situation, play

from karotte_gym.guest.shell import Answer, ShellSession

pytestmark = needs_root


@pytest.fixture(scope="module")
def shell() -> Iterator[tuple[ShellSession, HostSession, str]]:
    with host_shell() as made:
        yield made


def test_the_table_has_at_least_120_situations() -> None:
    assert len({situation.name for situation in SITUATIONS}) == len(SITUATIONS) >= 120


@pytest.mark.parametrize("situation", SITUATIONS, ids=lambda situation: situation.name)
def test_the_shell_answers_truly(situation: Situation, shell: tuple[ShellSession, HostSession, str]) -> None:
    session, _, work = shell

    def bash(command: str, timeout_s: float, restart: bool) -> Answer:
        return session.run(command, timeout_s=timeout_s, restart=restart, limit_bytes=65536)

    play(situation, bash, f"{work}/s")
