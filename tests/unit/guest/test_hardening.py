"""The kernel's settings: all written, none of them silently, and each with a reason in the documentation."""

from __future__ import annotations

from pathlib import Path

import pytest

from karotte_gym.guest.hardening import SETTINGS, apply

DOCUMENT = Path(__file__).parents[3] / "docs" / "hardening.md"


@pytest.mark.parametrize("name", [name for name, _ in SETTINGS])
def test_a_setting_has_its_reason_in_the_documentation(name: str) -> None:
    words = name.split("/")
    text = DOCUMENT.read_text()
    assert f"`{words[-1]}" in text or "/".join(words[-2:]) in text


def test_what_the_kernel_has_is_written_and_what_it_lacks_is_told(tmp_path: Path) -> None:
    for name, _ in SETTINGS[1:]:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("as it was")
    assert apply(str(tmp_path)) == [SETTINGS[0][0]]
    assert all((tmp_path / name).read_text() == value for name, value in SETTINGS[1:])


def test_a_setting_that_can_not_be_written_is_an_error(tmp_path: Path) -> None:
    (tmp_path / SETTINGS[0][0]).mkdir(parents=True)  # there, and not to be opened for writing, for root neither
    with pytest.raises(IsADirectoryError):
        apply(str(tmp_path))


def test_the_door_for_modules_is_closed_last() -> None:
    assert SETTINGS[-1] == ("kernel/modules_disabled", "1")
