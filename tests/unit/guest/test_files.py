"""The file tools as the student would use and abuse them, in real forks with another user's rights."""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from as_user import needs_root
from host_session import UID, host_shell
from hypothesis import given, settings
from hypothesis import strategies as st

from karotte_gym.guest.calls import Call, Machine, Refused
from karotte_gym.guest.file_diff import describe
from karotte_gym.guest.file_text import pictured
from karotte_gym.guest.files import METHODS
from karotte_gym.tools import clean

pytestmark = needs_root


class Student:
    """A machine with a shell in `work`, and the two tools."""

    def __init__(self, machine: Machine, work: str):
        self.machine, self.work = machine, Path(work)

    def write(self, name: str, data: bytes, mode: int = 0o644) -> Path:
        path = self.work / name
        path.write_bytes(data)
        os.chown(path, UID, UID)
        path.chmod(mode)
        return path

    def view(self, path: object, start: object = 1, end: object = 20, **more: object) -> tuple[int, bytes]:
        return self._call("view_lines", path=path, start=start, end=end, **more)

    def replace(self, path: object, old: object, new: object, **more: object) -> tuple[int, bytes]:
        return self._call("replace_in_file", path=path, old=old, new=new, **more)

    def write_file(self, path: object, content: bytes) -> tuple[int, bytes]:
        return self._call("write_file", content, path=path)

    def read_file(self, path: object, max_bytes: int = 1 << 20) -> tuple[int, bytes]:
        parts: list[bytes] = []
        code, text = self._call("read_file", part=lambda _, body: parts.append(body), path=path, max_bytes=max_bytes)
        return code, text + b"".join(parts)

    def _call(self, method: str, body: bytes = b"", part: Any = None, **params: Any) -> tuple[int, bytes]:
        began = time.monotonic()
        facts, text = METHODS[method](self.machine, Call(method, params, body, part or (lambda *_: None)))
        assert time.monotonic() - began < 60 and b"took longer" not in text, text
        return facts["exit_code"], text


@pytest.fixture(scope="module")
def student() -> Iterator[Student]:
    with host_shell() as (shell, session, work):
        machine = Machine(session=session)
        machine.state["shell"] = (session, shell)
        shell.run(f"cd {work}", timeout_s=10, restart=False, limit_bytes=4096)
        yield Student(machine, work)


def test_lines_come_with_their_numbers(student: Student) -> None:
    student.write("f", b"".join(b"line %d\n" % n for n in range(1, 31)))
    assert student.view("f", 9, 11) == (0, b"     9\tline 9\n    10\tline 10\n    11\tline 11\n")
    assert student.view("f", 30, 99) == (0, b"    30\tline 30\n")
    assert student.view("f", 31, 99) == (1, b"f: has only 30 lines\n")


@settings(max_examples=30)
@given(
    st.lists(st.binary(max_size=20).map(lambda b: b.replace(b"\n", b"")), max_size=12),
    st.booleans(),
    st.integers(1, 14),
    st.integers(0, 5),
)
def test_any_lines_are_shown_as_they_are(student: Student, lines: list[bytes], ended: bool, start: int, more: int) -> None:
    data = b"\n".join(lines) + (b"\n" if ended and lines else b"")
    student.write("any", data)
    *whole, last = data.split(b"\n")
    expected = [pictured(line.removesuffix(b"\r")) for line in whole] + ([pictured(last)] if last else [])
    code, text = student.view("any", start, start + more)
    if start <= len(expected):
        shown = expected[start - 1 : start + more]
        assert (code, text) == (0, b"".join(b"%6d\t%s\n" % (start + i, line) for i, line in enumerate(shown)))
    else:
        assert (code, text) == ((0, b"") if start == 1 else (1, b"any: has only %d lines\n" % len(expected)))


def test_a_line_is_shown_as_it_is_in_the_file_and_not_as_a_screen_would(student: Student) -> None:
    """Taken for a progress bar, a line would hide what is written before its carriage returns, its number first."""
    student.write("controls", "a\rb\rc\n1\r2\r\nx\by\x1b[31m\x9b1m\0é\n\r".encode() + b"\x9b")
    code, text = student.view("controls")
    shown = ["a␍b␍c", "1␍2", "x␈y␛[31m\ufffd1m␀é", "␍\ufffd"]
    assert (code, clean(text)) == (0, "".join(f"{number:6}\t{line}\n" for number, line in enumerate(shown, 1)))
    code, text = student.replace("controls", "y", "z")
    assert code == 0 and "+x␈z␛[31m\ufffd1m␀é" in clean(text).split("\n")


def test_a_name_that_would_move_a_cursor_is_shown(student: Student) -> None:
    student.write("a\rb", b"x\n")
    assert clean(student.replace("a\rb", "x", "y")[1]).startswith("Replaced 1 match in a␍b\n")
    assert clean(student.write_file("a\rb", b"")[1]) == "Replaced a␍b (0 bytes, before: 2)\n"
    assert clean(student.write_file("c\x1b[1m", b"")[1]) == "Created c␛[1m (0 bytes)\n"
    assert clean(student.view("no\rne")[1]) == "no␍ne: No such file or directory\n"


def test_no_character_is_cut_in_two(student: Student) -> None:
    student.write("euros", "€".encode() * 2000 + b"\n" + "€".encode() * 200 + b" \xff\n")
    code, text = student.view("euros")
    first, second = text.decode("utf-8", "surrogateescape").splitlines()
    assert (code, first) == (0, "     1\t" + "€" * 1333 + " [... 2001 bytes of this line cut ...]")
    assert second == "     2\t" + "€" * 200 + " \udcff"
    assert b"+y\n" in describe(b"x\n", b"x", b"y", 1)
    assert ("-" + "€" * 133 + " [...]\n").encode() in describe("€".encode() * 200, "€".encode(), b"y", 1)
    assert "\ufffd" not in student.replace("euros", "€\n€ €", "")[1].decode()


def test_lines_across_chunks_are_whole(student: Student) -> None:
    student.write("long", b"".join(b"%0100d\n" % n for n in range(1, 20_001)))
    for start in (2595, 2596, 5191, 20_000):
        assert student.view("long", start, start) == (0, b"%6d\t%0100d\n" % (start, start))


def test_a_huge_line_is_cut_and_the_next_one_shown(student: Student) -> None:
    student.write("huge", b"x" * 3_000_000 + b"\nnext\n")
    code, text = student.view("huge", 1, 2)
    assert code == 0 and text.endswith(b"[... 2996000 bytes of this line cut ...]\n     2\tnext\n") and len(text) < 5000


def test_what_has_no_room_is_said(student: Student) -> None:
    student.write("many", b"0123456789\n" * 1000)
    code, text = student.view("many", 1, 1000, max_output_bytes=1000)
    assert code == 0 and len(text) < 1200 and b"no room for line" in text


def test_a_growing_file_and_a_sparse_giant_end(student: Student) -> None:
    path = student.write("sparse", b"")
    os.truncate(path, 10 << 30)
    code, text = student.view("sparse")
    assert code == 0 and b"too long to be viewed" in text
    code, text = student.view("sparse", 1_000_000_000, 1_000_000_000)
    assert code == 1 and b"too long" in text
    code, text = student.replace("sparse", "a", "b")
    assert code == 1 and b"longer than 16 MiB" in text


def test_what_is_no_regular_file_is_refused_at_once(student: Student) -> None:
    os.mkfifo(student.work / "pipe", 0o666)
    (student.work / "to-pipe").symlink_to("pipe")
    (student.work / "loop").symlink_to("loop")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(student.work / "socket"))
    for path in (
        "pipe",
        "to-pipe",
        "loop",
        "socket",
        ".",
        "/dev/zero",
        "/dev/random",
        "/dev/tty",
        "nope",
        "",
        "\0",
        "x" * 5000,
    ):
        assert student.view(path)[0] == 1, path  # and not because its time was up, see `_call`
        assert student.replace(path, "a", "b")[0] == 1, path


def test_the_tool_sees_no_more_than_the_student(student: Student) -> None:
    secret = student.work.parent / "secret"
    secret.write_text("63148")
    secret.chmod(0o600)
    (student.work / "to-secret").symlink_to(secret)
    for path in (str(secret), "to-secret", "/proc/1/environ", "/etc/shadow", "/proc/self/environ", "/proc/self/maps"):
        code, text = student.view(path)
        assert code == 1 and b"63148" not in text and (b"Permission denied" in text or b"file tool itself" in text), path
        assert student.replace(path, "6", "7")[0] == 1
    assert secret.read_text() == "63148"


def test_a_relative_path_starts_where_the_shell_is(student: Student) -> None:
    (student.work / "sub").mkdir()
    os.chown(student.work / "sub", UID, UID)
    shell = student.machine.state["shell"][1]
    shell.run(f"cd {student.work}/sub; echo inner > g", timeout_s=10, restart=False, limit_bytes=100)
    try:
        assert student.view("g") == (0, b"     1\tinner\n")
    finally:
        shell.run(f"cd {student.work}", timeout_s=10, restart=False, limit_bytes=100)


def test_one_match_is_replaced_and_shown(student: Student) -> None:
    path = student.write("r", b"".join(b"%d\n" % n for n in range(1, 11)), 0o640)
    code, text = student.replace("r", "5\n6", "five\nsix")
    assert (code, text.decode()) == (0, "Replaced 1 match in r\n@@ line 5 @@\n 3\n 4\n-5\n-6\n+five\n+six\n 7\n 8\n")
    assert path.read_bytes() == b"1\n2\n3\n4\nfive\nsix\n7\n8\n9\n10\n"
    assert path.stat().st_mode & 0o777 == 0o640 and path.stat().st_uid == UID


def test_the_first_match_or_all_are_replaced_and_the_count_is_said(student: Student) -> None:
    path = student.write("m", b"a b a b a")
    assert student.replace("m", "a", "c") == (
        0,
        b"Replaced the first of 3 matches in m\n@@ line 1 @@\n-a b a b a\n+c b a b a\n",
    )
    assert path.read_bytes() == b"c b a b a"
    assert student.replace("m", "a", "c", all=True) == (0, b"Replaced 2 matches in m\n@@ line 1 @@\n-c b a b a\n+c b c b c\n")
    assert path.read_bytes() == b"c b c b c"


@pytest.mark.parametrize(
    ("old", "hint"),
    [
        ("y = 99999", b""),
        ("if x:\n  return 1", b"; line 2 differs from it in white space only"),
        ("if  x:", b"; line 2 differs from it in white space only"),
        ("RETURN 1", b"; line 3 has it in other upper and lower case"),
        ("return 1\nreturn 2", b"; its first line is in line 3, what follows differs"),
        ("function(a): pass", b"; the nearest may be line 1: def function(a):"),
    ],
)
def test_no_match_says_so_and_where_it_nearly_is(student: Student, old: str, hint: bytes) -> None:
    text = b"def function(a):\n    if x:\n        return 1\n"
    path = student.write("h", text)
    assert student.replace("h", old, "z") == (1, b"h: the text does not occur in it (0 matches)" + hint + b"\n")
    assert path.read_bytes() == text


@settings(max_examples=60)
@given(st.text("ab\n", max_size=30), st.text("ab\n", min_size=1, max_size=3), st.text("ac\n", max_size=3), st.booleans())
def test_the_description_is_true_of_the_change(text: str, old: str, new: str, every: bool) -> None:
    """What has "-" and "+" before it are lines of the file before and after."""
    data, found = text.encode(), text.count(old)
    replaced = found if every else min(found, 1)
    said = describe(data, old.encode(), new.encode(), replaced).decode().splitlines()
    after = text.replace(old, new, replaced).split("\n")
    assert {line[1:] for line in said if line.startswith("-")} <= set(text.split("\n"))
    assert {line[1:] for line in said if line.startswith("+")} <= set(after)
    assert bool(said) == bool(replaced)


def test_line_ends_of_the_file_are_kept(student: Student) -> None:
    path = student.write("crlf", b"a\r\nb\r\n")
    assert student.replace("crlf", "a\nb", "x\ny\nz")[0] == 0
    assert path.read_bytes() == b"x\r\ny\r\nz\r\n"
    mixed = student.write("mixed", b"a\r\nb\nc")
    assert student.replace("mixed", "b\n", "d\ne\n")[0] == 0
    assert mixed.read_bytes() == b"a\r\nd\ne\nc"


def test_other_bytes_stay_as_they_are(student: Student) -> None:
    path = student.write("bytes", b"\xff\0\xfe old \xc3\x28 no end")
    assert student.replace("bytes", "old", "néw")[0] == 0
    assert path.read_bytes() == b"\xff\0\xfe n\xc3\xa9w \xc3\x28 no end"


def test_growth_beyond_the_limit_is_refused_before_it_is_made(student: Student) -> None:
    path = student.write("grow", b"a" * 1_000_000)
    code, text = student.replace("grow", "a", "b" * 4000, all=True)
    assert code == 1 and b"would grow to 4000000000 bytes" in text
    assert path.stat().st_size == 1_000_000


def test_a_million_matches_are_described_quickly() -> None:
    began = time.thread_time()  # the processor's time, of which a busy host takes none
    for data, old in (
        (b"a" * 1_000_000, b"a"),
        (b"a\n" * 500_000, b"a\n"),
        (b"\n" * 1_000_000, b"\n"),
        (b"a\na" * 300_000, b"a\na"),
    ):
        assert len(describe(data, old, b"b", data.count(old))) < 100_000
        assert len(describe(data, old, b"b", 1)) < 100_000
    assert time.thread_time() - began < 20, "each match is looked at once; for each pair it would be hours"


def test_links_and_names_survive_and_read_only_files_are_left_alone(student: Student) -> None:
    path = student.write("target", b"old")
    (student.work / "link").symlink_to("target")
    os.link(path, student.work / "second")
    assert student.replace("link", "old", "new longer")[0] == 0
    assert (student.work / "link").is_symlink() and (student.work / "second").read_bytes() == b"new longer"
    read_only = student.write("read-only", b"old", 0o444)
    assert student.replace("read-only", "old", "new") == (1, b"read-only: Permission denied\n")
    assert read_only.read_bytes() == b"old"


FOREIGN_GROUP = 12345


def test_a_file_keeps_its_group_and_its_bits(student: Student) -> None:
    foreign = student.write("foreign", b"old", 0o640)
    os.chown(foreign, UID, FOREIGN_GROUP)
    own = student.write("own", b"old", 0o6755)
    shared = student.work / "shared"
    shared.mkdir()
    inner = student.write("shared/inner", b"old", 0o2750)
    os.chown(shared, UID, FOREIGN_GROUP)
    shared.chmod(0o2777)  # what is made in there is of the directory's group
    for path in (foreign, own, inner):
        before = path.stat()
        assert student.replace(str(path), "old", "new")[0] == 0
        assert student.write_file(str(path), b"newer")[0] == 0
        after = path.stat()
        assert (path.read_bytes(), after.st_gid, after.st_mode) == (b"newer", before.st_gid, before.st_mode)
    os.link(own, student.work / "own-too")
    assert student.write_file("own", b"in place")[0] == 0 and own.stat().st_mode & 0o7777 == 0o6755


def test_a_file_keeps_its_attributes(student: Student) -> None:
    path = student.write("marked", b"old")
    try:
        os.setxattr(path, "user.mark", b"mine")
    except OSError:
        pytest.skip("the file system of the tests has no attributes of users")
    assert student.replace("marked", "old", "new")[0] == 0 and student.write_file("marked", b"newer")[0] == 0
    assert (path.read_bytes(), os.getxattr(path, "user.mark")) == (b"newer", b"mine")


def test_a_file_in_a_closed_directory_is_written_in_place(student: Student) -> None:
    directory = student.work / "closed"
    directory.mkdir()
    path = student.write("closed/f", b"old and more")
    directory.chmod(0o555)
    assert student.replace("closed/f", "old", "new")[0] == 0
    assert path.read_bytes() == b"new and more" and os.listdir(directory) == ["f"]


def test_a_file_is_written_whole(student: Student) -> None:
    path = student.work / "new"
    assert student.write_file("new", b"caf\xc3\xa9\r\n") == (0, b"Created new (7 bytes)\n")
    assert path.read_bytes() == b"caf\xc3\xa9\r\n" and path.stat().st_uid == UID and path.stat().st_mode & 0o777 == 0o644
    path.chmod(0o750)
    inode = path.stat().st_ino
    assert student.write_file("new", b"") == (0, b"Replaced new (0 bytes, before: 7)\n")
    assert path.read_bytes() == b"" and path.stat().st_mode & 0o777 == 0o750 and path.stat().st_ino != inode
    assert student.write_file(str(student.work / "max"), b"x" * (1 << 20))[0] == 0


def test_a_reader_sees_the_old_content_or_the_new(student: Student) -> None:
    path = student.write("atomic", b"a" * 500_000)
    seen: set[bytes] = set()
    done = threading.Event()

    def look() -> None:
        while not done.is_set():
            data = path.read_bytes()
            seen.add(data[:1] + data[-1:] + b"%d" % len(data))

    reader = threading.Thread(target=look)
    reader.start()
    try:
        for letter in b"bcdefgh":
            assert student.write_file("atomic", bytes([letter]) * 400_000)[0] == 0
    finally:
        done.set()
        reader.join()
    assert seen <= {b"aa500000", *(bytes([each, each]) + b"400000" for each in b"bcdefgh")}


def test_no_directory_is_made_and_that_is_said(student: Student) -> None:
    code, text = student.write_file("no/such/f", b"x")
    assert (
        code == 1 and text == b"no/such/f: the directory no/such does not exist and is not made by this tool; make it first\n"
    )
    assert not (student.work / "no").exists()


def test_what_is_no_regular_file_is_not_written(student: Student) -> None:
    os.mkfifo(student.work / "pipe2", 0o666)
    (student.work / "dangling").symlink_to("nowhere")
    (student.work / "around").symlink_to("around")
    for path in ("pipe2", "dangling", "around", ".", "", "\0", "x/", "..", "/dev/full", "/dev/tty", "/etc/shadow", "x" * 300):
        code, text = student.write_file(path, b"x")
        assert code == 1 and text.endswith(b"\n"), (path, text)
    assert not (student.work / "nowhere").exists()


def test_nothing_is_written_that_the_student_could_not_write(student: Student) -> None:
    target = student.work.parent / "roots"
    target.write_bytes(b"root's own")
    (student.work / "to-roots").symlink_to(target)
    for path in (str(target), "to-roots", str(student.work.parent / "fresh")):
        code, text = student.write_file(path, b"mine")
        assert code == 1 and b"Permission denied" in text, text
    assert target.read_bytes() == b"root's own" and not (student.work.parent / "fresh").exists()
    target.chmod(0o666)  # now the student may: the content changes, the owner and the mode do not
    assert student.write_file("to-roots", b"mine")[0] == 0
    assert target.read_bytes() == b"mine" and target.stat().st_uid == 0 and target.stat().st_mode & 0o777 == 0o666


def test_all_names_of_a_file_and_a_link_to_it_get_the_new_content(student: Student) -> None:
    path = student.write("first", b"old")
    os.link(path, student.work / "other")
    (student.work / "soft").symlink_to("first")
    assert student.write_file("soft", b"new") == (0, b"Replaced soft (3 bytes, before: 3)\n")
    assert (student.work / "other").read_bytes() == b"new" and (student.work / "soft").is_symlink()


def test_bytes_are_read_to_the_bound_and_not_beyond(student: Student) -> None:
    data = bytes(range(256)) * 9000
    student.write("bytes-of-it", data)
    assert student.read_file("bytes-of-it", len(data)) == (0, data)
    code, text = student.read_file("bytes-of-it", len(data) - 1)
    assert code == 1 and b"longer than 2303999 bytes" in text
    student.write("none", b"")
    assert student.read_file("none") == (0, b"")
    secret = student.work.parent / "secret-picture"
    secret.write_bytes(b"63148")
    secret.chmod(0o600)
    (student.work / "to-picture").symlink_to(secret)
    for path in ("to-picture", "/dev/zero", ".", "/proc/self/environ", "/proc/1/environ"):
        code, text = student.read_file(path)
        assert code == 1 and b"63148" not in text, path


def test_no_temporary_file_is_left(student: Student) -> None:
    assert [name for name in os.listdir(student.work) if name.startswith(".")] == []


@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("view_lines", {"path": 5, "start": 1, "end": 2}),
        ("view_lines", {"path": "f", "start": 0, "end": 2}),
        ("view_lines", {"path": "f", "start": 2, "end": 1}),
        ("view_lines", {"path": "f", "start": True, "end": 1}),
        ("view_lines", {"path": "f", "start": 1.0, "end": 1}),
        ("view_lines", {"path": "f", "start": 1, "end": 10**30}),
        ("view_lines", {"path": "\ud800", "start": 1, "end": 1}),
        ("replace_in_file", {"path": "f", "old": None, "new": "a"}),
        ("replace_in_file", {"path": "f", "old": "a", "new": "b", "all": "yes"}),
        ("write_file", {"path": 5}),
        ("read_file", {"path": "f"}),
        ("read_file", {"path": "f", "max_bytes": 0}),
        ("read_file", {"path": "f", "max_bytes": True}),
        ("read_file", {"path": "f", "max_bytes": 1 << 30}),
    ],
)
def test_bad_parameters_are_refused(student: Student, method: str, params: dict[str, Any]) -> None:
    with pytest.raises(Refused) as caught:
        METHODS[method](student.machine, Call(method, params, b"", lambda *_: None))
    assert caught.value.kind == "bad-params"
