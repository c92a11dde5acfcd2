"""Files are put and read as root without following or waiting for anything that the student arranged."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Any

import pytest
from as_user import Answer, needs_root

from karotte_gym.guest import transfer
from karotte_gym.guest.calls import Machine, Refused

pytestmark = [needs_root, pytest.mark.timeout(60)]


@pytest.fixture
def machine() -> Machine:
    return Machine()


def put(machine: Machine, path: Path, data: bytes, /, **changes: Any) -> None:
    params: dict[str, Any] = {"path": str(path), "mode": 0o640, "owner": "root", "token": "t"}
    transfer.METHODS["put_file"](machine, Answer("put_file", body=data, **params | changes).call)


def get(machine: Machine, path: Path, max_bytes: int = 1000) -> bytes:
    answer = Answer("get_file", path=str(path), max_bytes=max_bytes)
    result, _ = transfer.METHODS["get_file"](machine, answer.call)
    data = b"".join(body for _, body in answer.parts)
    assert result == {"size": len(data)}
    return data


def kind(call: Any, *arguments: Any, **changes: Any) -> str:
    with pytest.raises(Refused) as refused:
        call(*arguments, **changes)
    return refused.value.kind


def test_a_file_is_put_with_its_parents_mode_and_owner(machine: Machine, tmp_path: Path) -> None:
    put(machine, tmp_path / "a" / "b" / "f", b"data", owner="student")
    status = os.stat(tmp_path / "a" / "b" / "f")
    assert (status.st_uid, status.st_gid, stat.S_IMODE(status.st_mode)) == (1000, 1000, 0o640)
    assert os.stat(tmp_path / "a" / "b").st_uid == 1000
    assert get(machine, tmp_path / "a" / "b" / "f") == b"data"


def test_nothing_is_seen_of_a_file_before_its_last_chunk(machine: Machine, tmp_path: Path) -> None:
    put(machine, tmp_path / "f", b"old")
    put(machine, tmp_path / "f", b"ne", append=False, last=False)
    assert get(machine, tmp_path / "f") == b"old"
    put(machine, tmp_path / "f", b"w", append=True, last=True)
    assert get(machine, tmp_path / "f") == b"new"
    assert os.listdir(tmp_path) == ["f"]


def test_links_are_neither_written_through_nor_replaced(machine: Machine, tmp_path: Path) -> None:
    (tmp_path / "target").write_bytes(b"kept")
    (tmp_path / "link").symlink_to("target")
    (tmp_path / "way").symlink_to(tmp_path)
    assert kind(put, machine, tmp_path / "link", b"x") == "refused"
    assert kind(put, machine, tmp_path / "way" / "f", b"x") == "refused"
    assert kind(get, machine, tmp_path / "link") == "refused"
    assert kind(get, machine, tmp_path / "way" / "target") == "refused"
    assert (tmp_path / "target").read_bytes() == b"kept"
    assert sorted(os.listdir(tmp_path)) == ["link", "target", "way"]


def test_a_fifo_does_not_hang_anybody(machine: Machine, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    assert kind(get, machine, tmp_path / "pipe") == "not-regular"
    assert kind(put, machine, tmp_path / "pipe", b"x") == "refused"


def test_an_exchange_of_the_half_written_file_is_noticed(machine: Machine, tmp_path: Path) -> None:
    put(machine, tmp_path / "f", b"mine", last=False)
    (half,) = os.listdir(tmp_path)
    os.unlink(tmp_path / half)
    (tmp_path / half).write_bytes(b"theirs")
    assert kind(put, machine, tmp_path / "f", b"", append=True) == "refused"


def test_given_up_files_leave_nothing(machine: Machine, tmp_path: Path) -> None:
    for number in range(transfer.MAX_OPEN + 5):
        put(machine, tmp_path / str(number), b"x", token=f"t{number}", last=False)
    assert len(os.listdir(tmp_path)) == transfer.MAX_OPEN
    assert kind(put, machine, tmp_path / "0", b"x", token="t0", append=True) == "refused"


def test_reading_is_bounded(machine: Machine, tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"x" * 1001)
    assert kind(get, machine, tmp_path / "f") == "too-large"
    os.truncate(tmp_path / "f", 10 << 40)
    assert kind(get, machine, tmp_path / "f") == "too-large"


def test_what_has_no_size_of_its_own_is_bounded_too(machine: Machine) -> None:
    assert kind(get, machine, Path(f"/proc/{os.getpid()}/smaps"), max_bytes=10) == "too-large"


@pytest.mark.parametrize("path", ["f", "a/f"])
def test_what_is_not_there_is_no_file(machine: Machine, tmp_path: Path, path: str) -> None:
    assert kind(get, machine, tmp_path / path) == "no-file"


def test_a_directory_is_not_read(machine: Machine, tmp_path: Path) -> None:
    assert kind(get, machine, tmp_path) == "not-regular"


@pytest.mark.parametrize(
    "wrong",
    [{"path": "relative"}, {"path": "/a/../b"}, {"token": "../x"}, {"owner": "nobody"}, {"owner": []}, {"mode": 0o4755}],
)
def test_bad_parameters_are_refused(machine: Machine, tmp_path: Path, wrong: dict[str, Any]) -> None:
    assert kind(put, machine, tmp_path / "f", b"", **wrong) == "bad-params"
