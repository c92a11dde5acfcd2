"""A copy is byte-exact or refused with a sentence; never a crash, a hang, a link that was followed."""

from __future__ import annotations

import contextlib
import hashlib
import os
import socket
import stat
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from as_user import UID, Answer, needs_root, nobody_left, start
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from karotte_gym.config import SubmissionLimits
from karotte_gym.errors import CallRefused
from karotte_gym.guest import custody
from karotte_gym.guest.calls import Machine, Refused
from karotte_gym.guest.custody import Caps, Collector
from karotte_gym.guest.nofollow import Problem
from karotte_gym.sandbox.contract import Submission
from karotte_gym.sandbox.submission import receive
from karotte_gym.scoring import StudentMisbehavior

pytestmark = [needs_root, pytest.mark.timeout(120)]
CAPS = Caps(max_file_bytes=1 << 20, max_total_bytes=2 << 20, max_entries=50, max_depth=5)
LIMITS = SubmissionLimits(max_file_bytes=1 << 20, max_total_bytes=2 << 20, max_entries=50, max_depth=5)


@pytest.fixture
def work(tmp_path: Path) -> Path:
    """The student's workspace: an empty directory of its own."""
    workspace = tmp_path / "workdir"
    workspace.mkdir()
    os.chown(workspace, UID, UID)
    return workspace


def collect(
    path: Path, into: Path, *, caps: Caps = CAPS, limits: SubmissionLimits = LIMITS, allow_symlinks: bool = False
) -> Submission:
    """What the guest sends, received by the host. StudentMisbehavior when the guest refuses."""
    answer = Answer("collect")
    device = os.stat(into).st_dev
    collector = Collector(answer.call, caps, allow_symlinks=allow_symlinks, device=device, owner=UID)

    def parts() -> Iterator[tuple[dict[str, Any], bytes]]:
        try:
            collector.collect(str(path))
        except Problem as problem:
            yield from answer.parts
            raise CallRefused("custody", str(problem)) from None
        yield from answer.parts

    return receive(parts(), str(into), limits, [str(path)])


def mine(path: Path, data: bytes | None = None) -> Path:
    """Make a file (or give what is there) to the student."""
    if data is not None:
        path.write_bytes(data)
    os.chown(path, UID, UID, follow_symlinks=False)
    return path


def refusal(path: Path, into: Path, **options: Any) -> str:
    with pytest.raises(StudentMisbehavior) as refused:
        collect(path, into, **options)
    assert str(path) in refused.value.sentence
    assert os.listdir(into) == []
    return refused.value.sentence


@pytest.fixture
def into(tmp_path: Path) -> Path:
    directory = tmp_path / "into"
    directory.mkdir(mode=0o700)
    return directory


def test_a_file_arrives_as_it_is(work: Path, into: Path) -> None:
    answer = mine(work / "answer.txt", b"63148\n")
    answer.chmod(0o640)
    submission = collect(answer, into)
    (file,) = submission.files
    assert (file.path, file.is_dir, file.mode, file.size) == (str(answer), False, 0o640, 6)
    assert file.sha256 == hashlib.sha256(b"63148\n").hexdigest()
    assert Path(file.data_path).read_bytes() == b"63148\n"
    assert stat.S_IMODE(os.stat(file.data_path).st_mode) == 0o600


def test_a_missing_file_is_said_to_be_missing(work: Path, into: Path) -> None:
    submission = collect(work / "answer.txt", into)
    assert submission.files == () and submission.missing == (str(work / "answer.txt"),)


def test_a_missing_parent_directory_is_misbehaviour(work: Path, into: Path) -> None:
    assert "the directory" in refusal(work / "gone" / "answer.txt", into)


@pytest.mark.parametrize("target", ["/etc/shadow", "/etc/passwd", "nowhere", "answer.txt"])
def test_a_link_is_refused_whatever_it_points_to(work: Path, into: Path, target: str) -> None:
    (work / "answer.txt").symlink_to(target)
    assert "symbolic link" in refusal(work / "answer.txt", into)


def test_a_link_on_the_way_is_refused_by_name(work: Path, into: Path) -> None:
    (work / "real").mkdir()
    mine(work / "real" / "answer.txt", b"1")
    (work / "data").symlink_to("real")
    with pytest.raises(StudentMisbehavior, match=f"{work}/data is a symbolic link"):
        collect(work / "data" / "answer.txt", into)


def test_a_file_on_the_way_is_refused_by_name(work: Path, into: Path) -> None:
    mine(work / "data", b"1")
    with pytest.raises(StudentMisbehavior, match=f"{work}/data is a regular file and not a directory"):
        collect(work / "data" / "answer.txt", into)


def test_a_fifo_does_not_hang_and_is_refused(work: Path, into: Path) -> None:
    os.mkfifo(work / "answer.txt")
    assert "FIFO" in refusal(work / "answer.txt", into)


def test_a_socket_is_refused(work: Path, into: Path) -> None:
    with socket.socket(socket.AF_UNIX) as server, contextlib.chdir(work):
        server.bind("answer.txt")
        assert "socket" in refusal(work / "answer.txt", into)


@pytest.mark.parametrize(("kind", "device"), [(stat.S_IFCHR, (0, 0)), (stat.S_IFCHR, (1, 5)), (stat.S_IFBLK, (7, 0))])
def test_devices_are_refused_without_being_opened(work: Path, into: Path, kind: int, device: tuple[int, int]) -> None:
    """0:0 is the whiteout that any user can make on ext4."""
    os.mknod(work / "answer.txt", kind | 0o666, os.makedev(*device))
    assert "device" in refusal(work / "answer.txt", into)


def test_a_second_name_of_the_students_own_file_is_legal(work: Path, into: Path) -> None:
    os.link(mine(work / "copy.txt", b"63148"), work / "answer.txt")
    assert collect(work / "answer.txt", into).files[0].size == 5


def test_a_second_name_of_another_owners_file_is_refused(work: Path, into: Path) -> None:
    (work.parent / "key").write_bytes(b"secret")
    os.link(work.parent / "key", work / "answer.txt")
    assert "hard link" in refusal(work / "answer.txt", into)


def test_a_private_file_of_another_owner_is_refused(work: Path, into: Path) -> None:
    """A rename would be enough to put one there, in a directory that the student can write."""
    (work / "answer.txt").write_bytes(b"secret")
    (work / "answer.txt").chmod(0o600)
    assert "another owner" in refusal(work / "answer.txt", into)


def test_a_file_left_by_a_hook_may_be_handed_in(work: Path, into: Path) -> None:
    (work / "answer.txt").write_bytes(b"from the hook")
    (work / "answer.txt").chmod(0o644)
    assert collect(work / "answer.txt", into).files[0].size == 13


@pytest.mark.parametrize("mode", [0o000, 0o4755, 0o777])
def test_odd_modes_are_legal(work: Path, into: Path, mode: int) -> None:
    mine(work / "answer.txt", b"63148").chmod(mode)
    assert collect(work / "answer.txt", into).files[0].mode == mode & 0o777


def test_directories_that_nobody_may_enter_are_no_obstacle(work: Path, into: Path) -> None:
    (work / "data").mkdir()
    mine(work / "data" / "answer.txt", b"63148").chmod(0)
    (work / "data").chmod(0)
    work.chmod(0)
    assert collect(work / "data" / "answer.txt", into).files[0].size == 5


def test_a_sparse_giant_is_refused_by_its_size(work: Path, into: Path) -> None:
    os.truncate(mine(work / "answer.txt", b"63148"), 10 << 30)
    assert "too large" in refusal(work / "answer.txt", into)


def test_holes_stay_holes_and_cost_nothing(work: Path, into: Path) -> None:
    answer = mine(work / "answer.txt", b"begin")
    os.truncate(answer, 900_000)
    with open(answer, "r+b") as stream:
        stream.seek(500_000)
        stream.write(b"middle")
    expected = answer.read_bytes()
    (file,) = collect(answer, into).files
    assert Path(file.data_path).read_bytes() == expected
    assert file.sha256 == hashlib.sha256(expected).hexdigest()
    assert os.stat(file.data_path).st_blocks * 512 < 100_000


def test_many_names_for_one_file_count_by_what_a_copy_takes(work: Path, into: Path) -> None:
    tree = work / "answer.txt"
    tree.mkdir()
    mine(tree / "f", b"1" * 900_000)
    for number in range(3):
        os.link(tree / "f", tree / str(number))
    with pytest.raises(StudentMisbehavior, match="total limit"):
        collect(tree, into)


def test_a_tree_arrives_with_its_empty_directories(work: Path, into: Path) -> None:
    tree = work / "answer.txt"
    (tree / "a" / "b").mkdir(parents=True)
    (tree / "empty").mkdir()
    mine(tree / "a" / "b" / "f", b"deep")
    mine(tree / "ünïcode name", b"x")
    submission = collect(tree, into)
    listing = {file.path.removeprefix(str(tree)): file.is_dir for file in submission.files}
    assert listing == {"": True, "/a": True, "/a/b": True, "/a/b/f": False, "/empty": True, "/ünïcode name": False}


def test_depth_is_bounded_at_the_cap_and_no_earlier(work: Path, into: Path) -> None:
    deep = work / "t" / "1" / "2" / "3" / "4"
    deep.mkdir(parents=True)
    mine(deep / "5", b"")
    assert len(collect(work / "t", into).files) == 6
    (work / "t" / "1" / "2" / "3" / "4" / "x").mkdir()
    mine(deep / "x" / "6", b"")
    for name in os.listdir(into):
        os.unlink(into / name)
    with pytest.raises(StudentMisbehavior, match="deeper than the 5 levels"):
        collect(work / "t", into)


def test_a_path_leaves_room_for_the_directory_that_a_grader_sees_it_under(work: Path, into: Path) -> None:
    """One of 4,095 bytes can be made, taken and sent, and then not be put below ``/submission``: a losing student's way out."""
    tree = work / "t"
    tree.mkdir()
    try:
        with contextlib.chdir(tree):
            left = 4095 - len(os.fsencode(tree)) - 1
            while left > 251:
                os.mkdir("d" * 250)
                os.chdir("d" * 250)
                left -= 251
            mine(Path("f" * left), b"x")  # the whole path has 4,095 bytes
        deep = SubmissionLimits(max_depth=32)
        with pytest.raises(StudentMisbehavior, match="longer than 3967 bytes"):
            collect(tree, into, caps=Caps(1 << 20, 1 << 20, 10**4, 32), limits=deep)
    finally:
        subprocess.run(["/bin/rm", "-rf", str(tree)], check=True)


def test_a_thousand_levels_are_refused_and_not_recursed_into(work: Path, into: Path) -> None:
    tree = work / "t"
    tree.mkdir()
    try:
        with contextlib.chdir(tree):
            for _ in range(1500):
                os.mkdir("d" * 20)
                os.chdir("d" * 20)
        with pytest.raises(StudentMisbehavior, match="deeper"):
            collect(tree, into)
        with pytest.raises(StudentMisbehavior, match="longer than"):
            wide = SubmissionLimits(max_entries=10**6, max_depth=10**6)
            collect(tree, into, caps=Caps(1 << 20, 1 << 20, 10**6, 10**6), limits=wide)
    finally:
        subprocess.run(["/bin/rm", "-rf", str(tree)], check=True)  # pytest's own clean-up would recurse


def test_entries_are_bounded(work: Path, into: Path) -> None:
    tree = work / "t"
    tree.mkdir()
    for number in range(60):
        mine(tree / str(number), b"")
    assert "more than 50 entries" in refusal(tree, into)


@pytest.mark.parametrize("name", [b"\xff\xfe", b"new\nline", b"\x1b[2J", "sep\u2028arator".encode(), b"\x7f"])
def test_names_that_are_no_plain_text_are_refused(work: Path, into: Path, name: bytes) -> None:
    (work / "t").mkdir()
    with open(os.path.join(os.fsencode(work / "t"), name), "wb"):
        pass
    with pytest.raises(StudentMisbehavior) as refused:
        collect(work / "t", into)
    assert "name" in refused.value.sentence and refused.value.sentence.isprintable()


def test_links_inside_a_tree_are_refused_or_left_out(work: Path, into: Path) -> None:
    (work / "t").mkdir()
    mine(work / "t" / "f", b"1")
    (work / "t" / "key").symlink_to("/etc/shadow")
    with pytest.raises(StudentMisbehavior, match="symbolic link"):
        collect(work / "t", into)
    submission = collect(work / "t", into, allow_symlinks=True)
    assert [file.path for file in submission.files] == [str(work / "t"), str(work / "t" / "f")]


def test_another_mount_in_the_tree_is_refused(work: Path, into: Path) -> None:
    (work / "t" / "m").mkdir(parents=True)
    os.system(f"mount -t tmpfs none {work}/t/m")
    try:
        assert os.path.ismount(work / "t" / "m")
        with pytest.raises(StudentMisbehavior, match="another mount"):
            collect(work / "t", into)
    finally:
        os.system(f"umount {work}/t/m")


LEASE = """
import fcntl, os, signal, sys, time
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGIO])
f = open(%r, 'r+')
fcntl.fcntl(f, fcntl.F_SETLEASE, fcntl.F_WRLCK)
print('up', flush=True)
time.sleep(99)
"""


def test_a_lease_does_not_hold_up_the_copy(work: Path, into: Path) -> None:
    """Custody comes after the killing, so there is no holder. If there were one, this is how it ends."""
    answer = mine(work / "answer.txt", b"1")
    for directory in work.parents:
        if directory.owner() == "root" and str(directory).startswith(tempfile.gettempdir() + "/"):
            directory.chmod(0o755)
    with nobody_left():
        start(LEASE % str(answer))
        assert "lease" in refusal(answer, into)


def test_a_file_that_grows_is_refused(work: Path) -> None:
    answer = mine(work / "answer.txt", b"1" * 100)

    class Growing(Answer):
        """Writes to the file while it is sent, as no process should be able to any more."""

        def __init__(self) -> None:
            super().__init__("collect")
            send = self.call.part

            def part(header: dict[str, Any], body: bytes) -> None:
                if "data" in header:
                    with open(answer, "ab") as stream:
                        stream.write(b"2")
                send(header, body)

            self.call.part = part

    collector = Collector(Growing().call, CAPS, allow_symlinks=False, device=os.stat(work).st_dev, owner=UID)
    with pytest.raises(Problem, match="changed"):
        collector.collect(str(answer))


@pytest.fixture
def machine_call(work: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    monkeypatch.setattr(custody, "WORKSPACE", str(work))
    monkeypatch.setattr(custody, "STUDENT_UID", UID)

    def call(**changes: Any) -> dict[str, Any]:
        params: dict[str, Any] = {"paths": [str(work / "answer.txt")], "allow_symlinks": False}
        params |= {name: getattr(CAPS, name) for name in Caps.__slots__} | changes
        return custody.METHODS["collect"](Machine(), Answer("collect", **params).call)[0]

    yield call


def test_the_call_answers_with_what_it_sent(machine_call: Any) -> None:
    assert machine_call() == {"entries": 0, "bytes": 0}


def test_the_call_refuses_while_a_process_of_the_students_lives(machine_call: Any) -> None:
    with nobody_left():
        start("import time\nprint('up', flush=True)\ntime.sleep(99)")
        with pytest.raises(Refused) as refused:
            machine_call()
    assert refused.value.kind == "session-running"


@pytest.mark.parametrize(
    "wrong",
    [
        {"paths": "x"},
        {"paths": ["relative"]},
        {"paths": ["/a/../b"]},
        {"paths": ["/a", "/a/b"]},
        {"paths": ["/a", "/a"]},
        {"paths": ["/a\0b"]},
        {"max_depth": -1},
        {"max_entries": True},
    ],
)
def test_bad_parameters_are_refused(machine_call: Any, wrong: dict[str, Any]) -> None:
    with pytest.raises(Refused) as refused:
        machine_call(**wrong)
    assert refused.value.kind == "bad-params"


# Random trees ---------------------------------------------------------------------------------------------------------

NAMES = st.one_of(
    st.text(st.characters(codec="utf-8", exclude_characters="/\0"), min_size=1, max_size=8).map(str.encode),
    st.binary(min_size=1, max_size=6).map(lambda raw: raw.replace(b"/", b"_").replace(b"\0", b"_")),
    st.just(b"n" * 255),
).filter(lambda name: name not in (b".", b"..") and len(name) <= 255)
LEAVES = st.one_of(
    st.tuples(st.just("file"), st.binary(max_size=3000), st.integers(0, 0o7777)),
    st.tuples(st.just("sparse"), st.integers(0, 3 << 20), st.integers(0, 0o777)),
    st.tuples(st.just("link"), st.sampled_from(["/etc/shadow", ".", "nowhere", "a"])),
    st.tuples(st.sampled_from(["fifo", "socket", "whiteout", "theirs", "private"])),
)
TREES = st.recursive(LEAVES, lambda inner: st.tuples(st.just("dir"), st.dictionaries(NAMES, inner, max_size=5)), max_leaves=25)


def build(path: bytes, node: tuple[Any, ...]) -> None:
    kind = node[0]
    if kind == "dir":
        os.mkdir(path)
        for name, below in node[1].items():
            build(os.path.join(path, name), below)
    elif kind == "link":
        Path(os.fsdecode(path)).symlink_to(node[1])
    elif kind == "fifo":
        os.mkfifo(path)
    elif kind in ("socket", "whiteout"):
        os.mknod(path, stat.S_IFSOCK if kind == "socket" else stat.S_IFCHR)
    else:
        with open(path, "wb") as stream:
            stream.write(node[1] if kind == "file" else b"")
            if kind == "sparse":
                stream.truncate(node[1])
        os.chmod(path, 0o600 if kind == "private" else node[2] if len(node) > 2 else 0o644)
    if kind not in ("theirs", "private"):
        os.chown(path, UID, UID, follow_symlinks=False)


def listing(top: Path) -> dict[str, tuple[bool, int, bytes]]:
    """Every entry by an ordinary walk: is it a directory, its mode, its bytes."""
    found = {}
    for entry in [top, *top.rglob("*")]:
        mode = entry.lstat().st_mode
        found[str(entry)] = (stat.S_ISDIR(mode), mode & 0o777, b"" if stat.S_ISDIR(mode) else entry.read_bytes())
    return found


@settings(max_examples=200, suppress_health_check=[HealthCheck.too_slow])
@given(TREES)
def test_any_tree_is_copied_exactly_or_refused_with_a_reason(tree: tuple[Any, ...]) -> None:
    with tempfile.TemporaryDirectory() as directory:
        top, into = Path(directory) / "answer", Path(directory) / "into"
        into.mkdir()
        build(os.fsencode(top), tree)
        try:
            submission = collect(top, into)
        except StudentMisbehavior as refused:
            assert directory in refused.sentence and refused.sentence.isprintable()
            assert os.listdir(into) == []
            return
        copied = {
            file.path: (file.is_dir, file.mode, b"" if file.is_dir else Path(file.data_path).read_bytes())
            for file in submission.files
        }
        assert copied == listing(top)
