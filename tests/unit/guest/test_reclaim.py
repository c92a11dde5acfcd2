"""What a user leaves behind is found and removed, wherever and however it lies, and the rest is named."""

from __future__ import annotations

import ctypes
import os
import stat
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from as_user import UID, Answer, needs_root, run_as

from karotte_gym.guest import reclaim
from karotte_gym.guest.calls import Machine, Refused
from karotte_gym.guest.left_over import Left
from karotte_gym.guest.patterns import Selection

pytestmark = [needs_root, pytest.mark.timeout(120)]


def mount(*arguments: str) -> None:
    subprocess.run(["/bin/mount", *arguments], check=True)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of its own that any user may write to."""
    top = tmp_path / "disk"
    top.mkdir()
    for directory in (tmp_path, *tmp_path.parents):
        if directory.name.startswith(("pytest-", "popen-")) or directory == tmp_path:
            directory.chmod(0o755)
    mount("-t", "tmpfs", "-o", "mode=1777,size=300m,nr_inodes=200000", "none", str(top))
    yield top
    subprocess.run(["/bin/umount", "--lazy", str(top)], check=True)


def clean(include: list[str], timeout_s: float = 60.0, **selection: Any) -> Left:
    return reclaim.delete_everything(UID, Selection(include, **selection), timeout_s)


def test_the_users_files_go_and_others_stay(disk: Path) -> None:
    def work() -> None:
        (disk / "mine" / "below").mkdir(parents=True)
        (disk / "mine" / "below" / "f").write_text("1")
        (disk / "link").symlink_to("/etc/passwd")
        os.mkfifo(disk / "pipe")

    run_as(UID, work)
    (disk / "roots").mkdir()
    (disk / "roots" / "f").write_text("1")
    left = clean([str(disk)])
    assert left.report() == [] and left.removed == 5
    assert [path.name for path in disk.rglob("*")] == ["roots", "f"]


def test_files_in_other_owners_directories_are_found(disk: Path) -> None:
    (disk / "roots").mkdir(mode=0o755)
    (disk / "roots" / "f").write_text("1")
    os.chown(disk / "roots" / "f", UID, UID)
    assert clean([str(disk)]).removed == 1


def test_directories_without_rights_are_no_obstacle(disk: Path) -> None:
    def work() -> None:
        for name in (b"\xff\xfe", b"\n", b" ", b"-r", b"*", b"..x", b"\x1b[A"):
            path = os.path.join(os.fsencode(disk), name)
            os.mkdir(path)
            os.mkdir(os.path.join(path, name))
            os.chmod(path, 0)

    run_as(UID, work)
    assert clean([str(disk)]).report() == []
    assert list(disk.iterdir()) == []


def test_trees_deeper_than_any_path_go(disk: Path) -> None:
    def work() -> None:
        os.chdir(disk)
        for _ in range(5000):
            os.mkdir("d" * 20)
            os.chdir("d" * 20)
        os.close(os.open("end", os.O_CREAT))
        os.chdir(disk)
        for _ in range(40):
            os.mkdir("n" * 250)
            os.chdir("n" * 250)

    run_as(UID, work)
    left = clean([str(disk)])
    assert left.report() == [] and left.removed == 5041
    assert list(disk.iterdir()) == []


def test_directories_that_change_places_under_the_walk_do_not_lead_it_astray(disk: Path) -> None:
    """Two trees are swapped all the time; what belongs to others, outside, must survive."""
    outside = disk / "outside"
    outside.mkdir()
    os.chown(outside, UID, UID)
    (outside / "kept").write_text("1")
    os.chown(outside / "kept", UID, UID)

    def work() -> None:
        for top in ("a", "b"):
            for inner in range(200):
                (disk / "in" / top / "x" / str(inner)).mkdir(parents=True)

    run_as(UID, work)
    stop = threading.Event()

    def swap() -> None:
        while not stop.is_set():
            for source, target in (("a/x", "c"), ("b/x", "a/x"), ("c", "b/x")):
                try:
                    os.rename(disk / "in" / source, disk / "in" / target)
                except OSError:
                    continue

    swapper = threading.Thread(target=swap)
    swapper.start()
    try:
        clean([f"{disk}/in"])
    finally:
        stop.set()
        swapper.join()
    assert (outside / "kept").exists()
    assert clean([f"{disk}/in"]).report() == []
    assert not (disk / "in").exists()


def test_a_directory_that_holds_anothers_file_is_named(disk: Path) -> None:
    run_as(UID, lambda: (disk / "mine").mkdir())
    (disk / "mine" / "roots").write_text("1")
    (item,) = clean([str(disk)]).report()
    assert item.startswith(f"{disk}/mine: holds")


def test_immutable_files_go(tmp_path: Path) -> None:
    image, top = tmp_path / "image", tmp_path / "ext4"
    top.mkdir()
    subprocess.run(["/sbin/mkfs.ext4", "-q", str(image), "8M"], check=True)
    try:
        mount("-o", "loop", str(image), str(top))
    except subprocess.CalledProcessError:
        pytest.skip("no loop device to mount an ext4 on, where files can be immutable")
    try:
        for name in ("i", "a", "d"):
            (top / name).mkdir() if name == "d" else (top / name).write_text("1")
            os.chown(top / name, UID, UID)
            subprocess.run(["/usr/bin/chattr", "+a" if name == "a" else "+i", str(top / name)], check=True)
        with pytest.raises(PermissionError):
            os.unlink(top / "i")
        assert clean([str(top)]).report() == []
        assert os.listdir(top) == ["lost+found"]
    finally:
        subprocess.run(["/bin/umount", str(top)], check=True)


def test_a_disk_mounted_below_another_one_is_cleaned_by_itself(disk: Path) -> None:
    inner = disk / "inner"
    inner.mkdir()
    mount("-t", "tmpfs", "none", str(inner))
    (inner / "f").write_text("1")
    os.chown(inner / "f", UID, UID)
    assert clean([str(inner)]).removed == 1
    assert list(inner.iterdir()) == []


def test_what_is_excluded_stays_by_every_name(disk: Path, tmp_path: Path) -> None:
    """The agent sees the scratch disk as a whole, the student parts of it under other names."""
    alias = tmp_path / "alias"
    alias.mkdir()

    def work() -> None:
        for name in ("keep/a/b/c", "go/a/b/c"):
            (disk / "part" / name).mkdir(parents=True)

    run_as(UID, work)
    mount("--bind", str(disk / "part"), str(alias))
    try:
        assert clean([str(disk), str(alias)], exclude=[f"{alias}/keep/a"]).report() == []
        assert sorted(path.name for path in disk.rglob("*")) == ["a", "b", "c", "keep", "part"]
        assert clean([str(disk)], exclude=[str(alias)]).report() == []
        assert sorted(path.name for path in disk.rglob("*")) == ["a", "b", "c", "keep", "part"]
        assert clean([str(alias)]).report() == []
        assert sorted(path.name for path in disk.rglob("*")) == ["part"]
        assert alias.stat().st_nlink > 0, "what is mounted somewhere is not removed, even by its other name"
        clean([str(disk)])
        assert alias.stat().st_nlink > 0 and (disk / "part").exists()
        (disk / "part" / "mine").mkdir()
        (disk / "part" / "mine" / "roots").touch()
        os.chown(disk / "part" / "mine", UID, UID)
        assert clean([f"{disk}/part/mine"]).report() == [f"{alias}/mine: holds files of other owners, or new ones"]
    finally:
        subprocess.run(["/bin/umount", str(alias)], check=True)


def test_a_mount_that_is_covered_is_named(disk: Path) -> None:
    (disk / "f").write_text("1")
    mount("-t", "tmpfs", "none", str(disk))
    try:
        assert f"{disk}: covered by another mount" in clean([str(disk)]).report()
    finally:
        subprocess.run(["/bin/umount", str(disk)], check=True)


def test_what_is_excluded_stays_and_is_not_complained_of(disk: Path) -> None:
    def work() -> None:
        for name in ("keep", "keen", "go"):
            (disk / "d" / name / "below").mkdir(parents=True)

    run_as(UID, work)
    assert clean([f"{disk}/d*"], exclude=[f"{disk}/*/kee?"]).report() == []
    assert sorted(os.listdir(disk / "d")) == ["keen", "keep"]


def test_only_what_is_included_goes(disk: Path) -> None:
    def work() -> None:
        for name in ("one", "two"):
            (disk / name / "below").mkdir(parents=True)

    run_as(UID, work)
    clean([f"{disk}/on*"])
    assert os.listdir(disk) == ["two"]


def test_the_time_is_bounded_and_what_was_not_reached_is_said(disk: Path) -> None:
    def work() -> None:
        os.chdir(disk)
        for _ in range(20_000):
            os.mkdir("d")
            os.chdir("d")

    run_as(UID, work)
    left = clean([str(disk)], timeout_s=0.05)
    assert os.listdir(disk) == ["d"], "it stopped before the end"
    assert f"{disk}: the time was up" in left.report()
    assert clean([str(disk)]).report() == []


def test_the_report_is_bounded(disk: Path) -> None:
    for number in range(300):
        directory = disk / ("x" * 200 + str(number))
        directory.mkdir()
        (directory / "roots").write_text("")
        os.chown(directory, UID, UID)
    report = clean([str(disk)]).report()
    assert len(report) == 201 and report[-1] == "... and 100 more"
    assert sum(map(len, report)) < 100_000


LIBC = ctypes.CDLL(None, use_errno=True)
IPC_CREAT, IPC_PRIVATE, IPC_SET = 0o1000, 0, 1


def _make_ipc() -> None:
    assert LIBC.shmget(IPC_PRIVATE, 4096, IPC_CREAT | 0o600) >= 0
    assert LIBC.semget(IPC_PRIVATE, 1, IPC_CREAT | 0o600) >= 0
    assert LIBC.msgget(IPC_PRIVATE, IPC_CREAT | 0o600) >= 0


def created_by(uid: int) -> list[str]:
    found = []
    for kind in ("shm", "sem", "msg"):
        names, *rows = [line.split() for line in Path(f"/proc/sysvipc/{kind}").read_text().splitlines()]
        found += [kind for row in rows if row[names.index("cuid")] == str(uid)]
    return found


def test_system_v_objects_go_by_their_creator() -> None:
    run_as(UID, _make_ipc)
    other = UID + 100
    run_as(other, _make_ipc)
    assert created_by(UID) == ["shm", "sem", "msg"]
    left = Left()
    reclaim.remove_ipc(UID, left)
    assert (left.removed, left.report()) == (3, [])
    assert created_by(UID) == [] and created_by(other) == ["shm", "sem", "msg"]
    reclaim.remove_ipc(other, Left())


def test_objects_in_the_sessions_namespace_go_as_well() -> None:
    code = "import sys; print('up', flush=True); sys.stdin.read()"
    holder = subprocess.Popen(
        ["/usr/bin/unshare", "--ipc", "/usr/bin/python3", "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert holder.stdout is not None and holder.stdout.readline() == b"up\n"
    try:
        inside = ["/usr/bin/nsenter", f"--ipc=/proc/{holder.pid}/ns/ipc"]
        subprocess.run([*inside, "/usr/bin/ipcmk", "-Q"], check=True, user=None, capture_output=True)
        listed = subprocess.run([*inside, "/usr/bin/ipcs", "-q"], check=True, capture_output=True).stdout
        assert b"0x" in listed
        left = Left()
        reclaim.remove_ipc(0, left, pid=holder.pid)
        assert left.removed >= 1
        assert b"0x" not in subprocess.run([*inside, "/usr/bin/ipcs", "-q"], check=True, capture_output=True).stdout
    finally:
        holder.communicate()


def test_posix_queues_go_with_their_mount(tmp_path: Path) -> None:
    top = tmp_path / "mqueue"
    top.mkdir()
    try:
        mount("-t", "mqueue", "none", str(top))
    except subprocess.CalledProcessError:
        pytest.skip("this kernel has no POSIX message queues")
    try:
        name = f"karotte-{os.getpid()}"
        (top / name).touch()
        os.chown(top / name, UID, UID)
        assert clean([str(top)]).removed == 1
        assert not (top / name).exists()
    finally:
        subprocess.run(["/bin/umount", str(top)], check=True)


def test_the_call_reports_what_it_did(disk: Path) -> None:
    run_as(UID, lambda: (disk / "mine").mkdir())
    answer = Answer("delete_files", uid=UID, include=[str(disk)], exclude=None, extend_exclude=[], timeout_s=30.0)
    assert reclaim.METHODS["delete_files"](Machine(), answer.call)[0] == {"removed": 1, "left": []}


@pytest.mark.parametrize(
    ("wrong", "kind"),
    [
        ({"uid": 0}, "refused"),
        ({"uid": None}, "bad-params"),
        ({"uid": True}, "bad-params"),
        ({"include": "x"}, "bad-params"),
        ({"include": ["relative"]}, "bad-params"),
        ({"include": ["/a/../b"]}, "bad-params"),
        ({"timeout_s": 0}, "bad-params"),
        ({"exclude": [1]}, "bad-params"),
    ],
)
def test_bad_parameters_are_refused(wrong: dict[str, Any], kind: str) -> None:
    params: dict[str, Any] = {"uid": UID, "include": [], "exclude": None, "extend_exclude": [], "timeout_s": 1.0}
    with pytest.raises(Refused) as refused:
        reclaim.METHODS["delete_files"](Machine(), Answer("delete_files", **params | wrong).call)
    assert refused.value.kind == kind


def test_device_nodes_of_the_users_go_too(disk: Path) -> None:
    """An ordinary user can make a 0:0 character device."""
    os.mknod(disk / "whiteout", stat.S_IFCHR | 0o666)
    os.chown(disk / "whiteout", UID, UID)
    assert clean([str(disk)]).removed == 1
