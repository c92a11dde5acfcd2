"""A submitted file is read when it is a small regular file; whatever else lies in its place is told apart, at once."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from scoring_script import GRADING

SECRET = b"63148"
BOUND = 64
READ = """
import json, sys
sys.path.append(sys.argv[1])
from karotte_grading import SubmissionUnusable, read_submitted
try:
    print(json.dumps(["read", read_submitted(sys.argv[2], int(sys.argv[3]), "answer").decode()]))
except SubmissionUnusable as unusable:
    print(json.dumps([unusable.kind, str(unusable)]))
"""


def read(path: Path, max_bytes: int = BOUND) -> list[str]:
    """As a scoring script does, in a process that is killed when it hangs."""
    argv = [sys.executable, "-I", "-c", READ, str(GRADING), str(path), str(max_bytes)]
    found: list[str] = json.loads(subprocess.run(argv, check=True, stdout=subprocess.PIPE, timeout=20).stdout)
    return found


def link_to_the_key(path: Path) -> None:
    key = path.parent / "key"
    key.write_bytes(SECRET)
    path.symlink_to(key)
    assert path.read_bytes() == SECRET, "a plain open would have followed it"


def listening_socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))


def terabyte_of_nothing(path: Path) -> None:
    path.touch()
    os.truncate(path, 1 << 40)


@pytest.mark.parametrize("data", [b"", b"x", b"x" * BOUND], ids=len)
def test_a_file_up_to_the_bound_is_read_whole(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "answer").write_bytes(data)
    assert read(tmp_path / "answer") == ["read", data.decode()]


def test_a_bound_of_gigabytes_costs_what_the_file_has(tmp_path: Path) -> None:
    (tmp_path / "answer").write_bytes(b"x")
    assert read(tmp_path / "answer", 1 << 50) == ["read", "x"]


@pytest.mark.parametrize(
    ("make", "kind", "sentence"),
    [
        (lambda _: None, "missing", "no answer was handed in"),
        (link_to_the_key, "unopened", "the answer can't be opened: Too many levels of symbolic links"),
        (lambda path: path.symlink_to("/nowhere"), "unopened", "the answer can't be opened"),
        (listening_socket, "unopened", "the answer can't be opened"),
        (lambda path: path.mkdir(), "no_file", "the answer is no regular file"),
        (os.mkfifo, "no_file", "the answer is no regular file"),
        (lambda path: path.write_bytes(b"x" * (BOUND + 1)), "too_long", "the answer has more than 64 bytes"),
        (terabyte_of_nothing, "too_long", "the answer has more than 64 bytes"),
    ],
    ids=["nothing", "link", "broken link", "socket", "directory", "fifo", "one byte more", "terabyte"],
)
def test_anything_else_is_told_apart_and_waited_for_by_nobody(
    tmp_path: Path, make: Callable[[Path], object], kind: str, sentence: str
) -> None:
    make(tmp_path / "answer")
    found, said = read(tmp_path / "answer")
    assert found == kind
    assert said.startswith(sentence)
    assert SECRET.decode() not in said
