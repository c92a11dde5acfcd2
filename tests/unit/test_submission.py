"""The host believes nothing of a submission: each lie is found out, and nothing is written under a name of the machine's."""

from __future__ import annotations

import copy
import hashlib
import io
import os
import stat
import subprocess
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from karotte_gym.config import SubmissionLimits
from karotte_gym.errors import CallRefused, ConfigError, GradingError, MachineDied, MachineError
from karotte_gym.sandbox.contract import CommandResult, Submission, SubmittedFile
from karotte_gym.sandbox.submission import receive, send_to
from karotte_gym.sandbox.unpack_archive import unpack_archive
from karotte_gym.scoring import StudentMisbehavior

PATHS = ["/workdir/data/answer.txt", "/workdir/out"]
LIMITS = SubmissionLimits(max_file_bytes=10_000, max_total_bytes=15_000, max_entries=6, max_depth=3)
Parts = list[tuple[Any, bytes]]


def sha(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def a_file(path: str, data: bytes = b"63148\n", **changes: Any) -> Parts:
    """The parts of one file; `changes` are lies."""
    lies = {"path": path, "mode": 0o644, "size": len(data), "offset": 0, "sha256": sha(data)} | changes
    body = [({"data": {"offset": lies["offset"]}}, data)] if data else []
    header = {"file": {name: lies[name] for name in ("path", "mode", "size")}}
    return [(header, b""), *body, ({"end": {"sha256": lies["sha256"]}}, b"")]


def a_dir(path: str, mode: int = 0o755) -> Parts:
    return [({"dir": {"path": path, "mode": mode}}, b"")]


def missing(path: str) -> Parts:
    return [({"missing": path}, b"")]


HONEST = a_file(PATHS[0]) + a_dir(PATHS[1]) + a_file(f"{PATHS[1]}/f", b"in a tree")
REST = missing(PATHS[1])


@pytest.fixture
def into(tmp_path: Path) -> Path:
    directory = tmp_path / "into"
    directory.mkdir(mode=0o700)
    return directory


def take(parts: Parts, into: Path, limits: SubmissionLimits = LIMITS) -> Submission:
    return receive(iter(parts), str(into), limits, PATHS)


def test_an_honest_stream_is_stored_under_numbers(into: Path) -> None:
    submission = take(HONEST, into)
    assert [(file.path, file.is_dir, file.size) for file in submission.files] == [
        ("/workdir/data/answer.txt", False, 6),
        ("/workdir/out", True, 0),
        ("/workdir/out/f", False, 9),
    ]
    assert sorted(os.listdir(into)) == ["000000", "000001"]
    assert Path(submission.files[0].data_path).read_bytes() == b"63148\n"
    assert stat.S_IMODE(os.stat(into / "000000").st_mode) == 0o600
    assert submission.directory == str(into) and len(submission.sha256) == 64


def test_the_digest_says_what_was_handed_in_and_not_where_it_lies(tmp_path: Path) -> None:
    def digest(parts: Parts, name: str) -> str:
        (tmp_path / name).mkdir()
        return take(parts, tmp_path / name).sha256

    first = digest(HONEST, "a")
    assert digest(HONEST, "b") == first
    assert digest(a_file(PATHS[0], b"63149\n") + HONEST[3:], "c") != first
    assert digest(a_file(PATHS[0], mode=0o755) + HONEST[3:], "d") != first


def test_missing_paths_are_no_misbehaviour(into: Path) -> None:
    assert take(missing(PATHS[0]) + missing(PATHS[1]), into).missing == tuple(PATHS)


def test_holes_are_kept(into: Path) -> None:
    parts: Parts = [
        ({"file": {"path": PATHS[0], "mode": 0o600, "size": 9000}}, b""),
        ({"hole": {"offset": 0, "length": 8192}}, b""),
        ({"data": {"offset": 8192}}, b"end"),
        ({"hole": {"offset": 8195, "length": 805}}, b""),
        ({"end": {"sha256": sha(b"end")}}, b""),
    ]
    (file,) = take(parts + REST, into).files
    content = bytes(8192) + b"end" + bytes(805)
    assert Path(file.data_path).read_bytes() == content and file.sha256 == sha(content)
    assert os.stat(file.data_path).st_blocks * 512 <= 4096


def piece(*parts: tuple[Any, bytes], size: int = 6) -> Parts:
    head = ({"file": {"path": PATHS[0], "mode": 0o644, "size": size}}, b"")
    return [head, *parts, ({"end": {"sha256": sha(b"63148\n")}}, b""), *REST]


LIES: dict[str, Parts] = {
    "nothing at all": [],
    "one path not answered": a_file(PATHS[0]),
    "the paths in another order": a_dir(PATHS[1]) + a_file(PATHS[0]),
    "a path twice": a_file(PATHS[0]) + a_file(PATHS[0]) + REST,
    "a path missing and there": missing(PATHS[0]) + a_file(PATHS[0]) + REST,
    "a path that was not asked for": a_file("/workdir/data/other.txt") + REST,
    "a path beside the one asked for": a_dir(PATHS[0]) + a_file("/workdir/data/answer.txt2") + REST,
    "a missing path that was not asked for": a_file(PATHS[0]) + missing("/etc/passwd"),
    "a path that climbs": a_dir(PATHS[0]) + a_file(f"{PATHS[0]}/../../../etc/passwd") + REST,
    "a path with a dot": a_dir(PATHS[0]) + a_file(f"{PATHS[0]}/./x") + REST,
    "a path with two slashes": a_dir(PATHS[0]) + a_file(f"{PATHS[0]}//x") + REST,
    "a path with NUL": a_dir(PATHS[0]) + a_file(f"{PATHS[0]}/\0") + REST,
    "a path with a control character": a_dir(PATHS[0]) + a_file(f"{PATHS[0]}/\x1b[2J") + REST,
    "a path with half a character": a_dir(PATHS[0]) + a_file(f"{PATHS[0]}/\ud800") + REST,
    "a name that is too long": a_dir(PATHS[0]) + a_file(f"{PATHS[0]}/{'n' * 256}") + REST,
    "a path that no grader has room for": a_dir(PATHS[0])
    + [part for n in range(1, 17) for part in a_dir(PATHS[0] + f"/{'d' * 250}" * n)]
    + REST,
    "a file below a file": a_file(PATHS[0]) + a_file(f"{PATHS[0]}/x") + REST,
    "a file without its directory": a_dir(PATHS[0]) + a_file(f"{PATHS[0]}/x/y") + REST,
    "too deep": a_dir(PATHS[0]) + [part for n in range(1, 5) for part in a_dir(PATHS[0] + "/d" * n)] + REST,
    "too many": a_dir(PATHS[0]) + [part for n in range(6) for part in a_dir(f"{PATHS[0]}/{n}")] + REST,
    "too large": a_file(PATHS[0], b"x" * 10_001) + REST,
    "too much together": a_file(PATHS[0], b"x" * 10_000) + a_file(PATHS[1], b"x" * 10_000),
    "a wrong digest": a_file(PATHS[0], sha256=sha(b"other")) + REST,
    "a digest that is none": a_file(PATHS[0], sha256="") + REST,
    "fewer bytes than said": a_file(PATHS[0], size=7) + REST,
    "more bytes than said": a_file(PATHS[0], size=5) + REST,
    "a negative size": a_file(PATHS[0], size=-1) + REST,
    "a size that is a truth value": a_file(PATHS[0], size=True) + REST,
    "a size that is no whole number": a_file(PATHS[0], size=6.0) + REST,
    "a mode that is none": a_file(PATHS[0], mode=0o1777) + REST,
    "a gap": a_file(PATHS[0], offset=1) + REST,
    "a negative offset": a_file(PATHS[0], offset=-1) + REST,
    "data twice": piece(({"data": {"offset": 0}}, b"631"), ({"data": {"offset": 0}}, b"631")),
    "data without bytes": piece(({"data": {"offset": 0}}, b""), ({"data": {"offset": 0}}, b"63148\n")),
    "a hole beyond the end": piece(({"hole": {"offset": 0, "length": 7}}, b"")),
    "a hole of nothing": piece(({"hole": {"offset": 0, "length": 0}}, b""), ({"data": {"offset": 0}}, b"63148\n")),
    "a hole backwards": piece(({"hole": {"offset": 0, "length": -1}}, b"")),
    "a hole with bytes": piece(({"hole": {"offset": 0, "length": 6}}, b"63148\n")),
    "an end with bytes": [*piece(({"data": {"offset": 0}}, b"63148\n"))[:2], ({"end": {"sha256": ""}}, b"x")],
    "a directory with bytes": [({"dir": {"path": PATHS[0], "mode": 0o755}}, b"x"), *REST],
    "data outside a file": [({"data": {"offset": 0}}, b"x"), *HONEST],
    "an end outside a file": [({"end": {"sha256": sha(b"")}}, b""), *HONEST],
    "a file in a file": [HONEST[0], *HONEST],
    "no end": HONEST[:2],
    "no end at the end": a_file(PATHS[0]) + a_file(PATHS[1])[:2],
    "an unknown part": [({"link": {"path": PATHS[0]}}, b""), *HONEST],
    "two parts in one": [(HONEST[0][0] | {"missing": PATHS[0]}, b""), *HONEST],
    "an empty part": [({}, b""), *HONEST],
    "a field too many": [({"dir": {"path": PATHS[0], "mode": 0, "x": 1}}, b""), *REST],
    "a field too few": [({"dir": {"path": PATHS[0]}}, b""), *REST],
    "a path that is a list": [({"dir": {"path": [PATHS[0]], "mode": 0}}, b""), *REST],
    "a missing path that is a list": [({"missing": [PATHS[0]]}, b""), *REST],
    "a part that is no object": [([], b""), *HONEST],  # the channel refuses it before
    "thousands of pieces": piece(*[({"data": {"offset": n}}, b"x") for n in range(100)], size=100),
}


@pytest.mark.parametrize("lie", LIES)
def test_a_lie_is_rubbish_and_leaves_nothing(into: Path, lie: str) -> None:
    with pytest.raises(MachineDied) as died:
        take(LIES[lie], into)
    assert died.value.cause == "protocol"
    assert os.listdir(into) == []


def test_a_refusal_by_custody_is_misbehaviour(into: Path) -> None:
    def parts() -> Iterator[tuple[dict[str, object], bytes]]:
        yield from a_file(PATHS[0])
        raise CallRefused("custody", "/workdir/out is a symbolic\nlink\x1b[2J" + "x" * 5000)

    with pytest.raises(StudentMisbehavior) as refused:
        receive(parts(), str(into), LIMITS, PATHS)
    assert refused.value.kind == "custody"
    assert refused.value.sentence.startswith("/workdir/out is a symbolic\ufffdlink\ufffd[2Jxxx")
    assert len(refused.value.sentence) < 700 and os.listdir(into) == []


def test_any_other_refusal_is_nobodys_misbehaviour(into: Path) -> None:
    def parts() -> Iterator[tuple[dict[str, object], bytes]]:
        raise CallRefused("internal", "a bug")
        yield

    with pytest.raises(CallRefused):
        receive(parts(), str(into), LIMITS, PATHS)


def test_a_host_that_can_not_store_it_says_so(tmp_path: Path) -> None:
    with pytest.raises(GradingError, match="could not be stored"):
        take(HONEST, tmp_path / "not-there")


def test_a_file_that_is_there_already_is_not_written_to(into: Path) -> None:
    (into / "000000").symlink_to(into.parent / "elsewhere")
    with pytest.raises(GradingError):
        take(HONEST, into)
    assert not (into.parent / "elsewhere").exists()


@pytest.mark.parametrize("path", ["relative", "/a/../b", "/a//b", "/", "/a\nb"])
def test_a_path_that_no_task_may_name_is_the_authors_mistake(into: Path, path: str) -> None:
    with pytest.raises(ConfigError):
        receive(iter([]), str(into), LIMITS, [path])


# Random damage --------------------------------------------------------------------------------------------------------

VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=20), st.sampled_from(PATHS)),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=8), inner, max_size=3)),
    max_leaves=6,
)
Change = Callable[[Parts], Parts]


@st.composite
def damage(draw: st.DrawFn) -> Parts:
    """An honest stream with some parts dropped, repeated, moved or changed inside."""
    parts = copy.deepcopy(HONEST)
    for _ in range(draw(st.integers(1, 4))):
        if not parts:
            break
        at = draw(st.integers(0, len(parts) - 1))
        kind = draw(st.sampled_from(["drop", "repeat", "move", "value", "key", "body"]))
        header = parts[at][0]
        if kind == "drop":
            del parts[at]
        elif kind == "repeat":
            parts.insert(at, copy.deepcopy(parts[at]))
        elif kind == "move":
            parts.insert(draw(st.integers(0, len(parts) - 1)), parts.pop(at))
        elif kind == "body":
            parts[at] = (header, draw(st.binary(max_size=12)))
        else:
            holder = next((v for v in header.values() if isinstance(v, dict) and v and draw(st.booleans())), header)
            if holder:
                key = draw(st.sampled_from(sorted(holder, key=str)))
                value = holder.pop(key)
                if kind == "key":
                    holder[draw(st.text(max_size=8))] = value
                else:
                    holder[key] = draw(VALUES)
    return parts


@settings(max_examples=500)
@given(parts=damage())
def test_damage_is_found_or_harmless(parts: Parts, tmp_path_factory: pytest.TempPathFactory) -> None:
    into = tmp_path_factory.mktemp("into")
    try:
        submission = take(parts, into)
    except MachineDied as died:
        assert died.cause == "protocol"
        assert os.listdir(into) == []
        return
    for file in submission.files:
        assert file.path in PATHS or file.path.startswith(f"{PATHS[1]}/") or file.path.startswith(f"{PATHS[0]}/")
        if not file.is_dir:
            assert Path(file.data_path).parent == into
            assert sha(Path(file.data_path).read_bytes()) == file.sha256


# To the grader --------------------------------------------------------------------------------------------------------


class Recorder:
    """As much of a grader machine as sending needs: what was put, and archives as tar finds them."""

    def __init__(self) -> None:
        self.put: dict[str, tuple[bytes, int]] = {}
        self.unpacked: dict[str, tuple[bytes | None, int]] = {}

    def put_file(self, path: str, data: bytes, *, mode: int = 0o644) -> None:
        self.put[path] = (data, mode)

    def run(self, argv: list[str], **_: Any) -> CommandResult:
        archive, directory = argv[-2:]
        with tarfile.open(fileobj=io.BytesIO(self.put.pop(archive)[0])) as tar:
            for member in tar:
                stream = tar.extractfile(member)
                self.unpacked[f"{directory}/{member.name}"] = (stream and stream.read(), member.mode)
        return CommandResult(b"", 0, False, 0, 0.0)


def submitted(into: Path, **files: bytes) -> Submission:
    entries = []
    for number, (name, data) in enumerate(files.items()):
        (into / f"{number:06d}").write_bytes(data)
        entries.append(SubmittedFile(f"/workdir/{name}", False, 0o711, len(data), sha(data), str(into / f"{number:06d}")))
    return Submission(tuple(entries))


def test_a_few_files_are_put_one_by_one(into: Path) -> None:
    recorder = Recorder()
    send_to(recorder, submitted(into, a=b"1", b=b"2"), "/submission")  # type: ignore[arg-type]
    assert recorder.put == {"/submission/workdir/a": (b"1", 0o755), "/submission/workdir/b": (b"2", 0o755)}


def test_a_tree_goes_as_an_archive_with_its_empty_directories(into: Path) -> None:
    recorder = Recorder()
    submission = take(missing(PATHS[0]) + a_dir(PATHS[1]) + a_dir(f"{PATHS[1]}/e") + a_file(f"{PATHS[1]}/f", b"x"), into)
    send_to(recorder, submission, "/submission")  # type: ignore[arg-type]
    assert recorder.put == {}
    assert recorder.unpacked == {
        "/submission/workdir/out": (None, 0o755),
        "/submission/workdir/out/e": (None, 0o755),
        "/submission/workdir/out/f": (b"x", 0o644),
    }


def test_an_archive_that_is_not_unpacked_is_our_fault(into: Path) -> None:
    class Full(Recorder):
        def run(self, *_: Any, **__: Any) -> CommandResult:
            return CommandResult(b"no space left", 2, False, 0, 0.0)

    with pytest.raises(GradingError, match="no space left"):
        send_to(Full(), submitted(into, **{str(n): b"" for n in range(9)}), "/submission")  # type: ignore[arg-type]


def test_unpacking_makes_the_directory_and_leaves_no_archive_whether_it_works_or_not(tmp_path: Path) -> None:
    class Here:
        """Runs what is asked of the machine on this host."""

        def put_file(self, path: str, data: bytes, *, mode: int) -> None:
            Path(path).write_bytes(data)
            Path(path).chmod(mode)

        def run(self, argv: list[str], **_: Any) -> CommandResult:
            done = subprocess.run(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
            return CommandResult(done.stdout, done.returncode, False, 0, 0.0)

    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        member = tarfile.TarInfo("a/b")
        member.size = 2
        archive.addfile(member, io.BytesIO(b"hi"))
    target = {"beside": f"{tmp_path}/archive.", "failure": MachineError, "what": "it failed"}
    unpack_archive(Here(), buffer.getvalue(), f"{tmp_path}/new/place", **target)  # type: ignore[arg-type]
    assert (tmp_path / "new" / "place" / "a" / "b").read_bytes() == b"hi"
    with pytest.raises(MachineError, match=r"^it failed: .*tar"):
        unpack_archive(Here(), b"no archive" * 100, f"{tmp_path}/new/place", **target)  # type: ignore[arg-type]
    assert [path.name for path in tmp_path.iterdir() if path.is_file()] == []
