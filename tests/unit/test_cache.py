"""The cache: whole or absent, one builder at a time, nothing removed under a user, damage found."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from karotte_gym.errors import CacheError, ConfigError
from karotte_gym.sandbox import cache, cache_prune


@pytest.fixture(autouse=True)
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("KAROTTE_GYM_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def one_file(content: str = "carrot"):
    def build(directory: Path) -> None:
        (directory / "file").write_text(content)

    return build


def never(_directory: Path) -> None:
    raise AssertionError("built again although nothing changed")


# Builds slowly: says "building", then waits for a line on its standard input before it finishes.
SLOW_BUILDER = """
import sys
from karotte_gym.sandbox import cache

def build(directory):
    (directory / "half").write_text("half")
    print("building", flush=True)
    sys.stdin.readline()

def told(stage, fraction):
    print(stage, flush=True)

print(cache.publish("drive", sys.argv[1], build, told), flush=True)
"""


def start_slow_builder(key: str) -> subprocess.Popen[str]:
    return subprocess.Popen([sys.executable, "-c", SLOW_BUILDER, key], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def first_line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def test_an_entry_is_built_once_and_found_again():
    path = cache.publish("drive", "k", one_file())
    assert (path / "file").read_text() == "carrot"
    assert cache.publish("drive", "k", never) == path == cache.find("drive", "k")
    assert cache.find("drive", "other") is None
    assert cache.verify(path) == []


def test_a_build_that_raises_leaves_nothing_and_its_error_comes_through(root: Path):
    def build(directory: Path) -> None:
        (directory / "sub").mkdir(mode=0o500)
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        cache.publish("drive", "k", build)
    assert [path.name for path in (root / "drive").iterdir() if not path.name.startswith(".lock-")] == []


def test_an_interrupted_build_leaves_nothing(root: Path):
    def build(directory: Path) -> None:
        (directory / "half").write_text("half")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        cache.publish("drive", "k", build)
    assert not list((root / "drive").glob(".tmp-*"))


def test_what_a_killed_builder_left_goes_at_the_next_build_of_any_key(root: Path):
    process = start_slow_builder("killed")
    assert first_line(process) == "building"
    process.kill()
    process.wait()
    left = root / "drive" / ".tmp-killed"
    assert (left / "half").exists(), "the attack: without a sweep this stays for ever"
    cache.publish("drive", "another", one_file())
    assert not left.exists()


def test_the_key_of_a_killed_builder_can_be_built():
    process = start_slow_builder("killed")
    assert first_line(process) == "building"
    process.send_signal(signal.SIGKILL)
    process.wait()
    path = cache.publish("drive", "killed", one_file())
    assert sorted(os.listdir(path)) == ["file", "manifest.json"]


def test_a_living_builder_is_left_alone_by_builds_and_prunes(root: Path):
    process = start_slow_builder("alive")
    assert first_line(process) == "building"
    cache.publish("drive", "another", one_file())
    cache.prune()
    assert (root / "drive" / ".tmp-alive" / "half").exists()
    process.communicate("go\n", timeout=30)
    assert process.returncode == 0
    assert (root / "drive" / "alive" / "half").exists()


def test_two_builders_of_one_key_wait_for_each_other():
    first = start_slow_builder("same")
    assert first_line(first) == "building"
    second = start_slow_builder("same")
    assert first_line(second).startswith("waiting for another process")
    first.communicate("go\n", timeout=30)
    said, _ = second.communicate(timeout=30)
    assert second.returncode == 0
    assert "building" not in said


@pytest.mark.parametrize("damage", ["truncated", "changed", "missing", "added", "manifest", "link"])
def test_a_damaged_entry_is_built_again(damage: str):
    path = cache.publish("drive", "k", one_file())
    file = path / "file"
    if damage == "truncated":
        os.truncate(file, 3)
    elif damage == "changed":
        file.write_text("potato")
    elif damage == "missing":
        file.unlink()
    elif damage == "added":
        (path / "more").touch()
    elif damage == "manifest":
        (path / "manifest.json").write_text('{"format": 1, "key": "k", "files": 7}')
    else:
        file.unlink()
        file.symlink_to("/etc/hostname")
    assert cache.find("drive", "k") is None
    rebuilt = cache.publish("drive", "k", one_file())
    assert sorted(os.listdir(rebuilt)) == ["file", "manifest.json"]
    assert file.read_text() == "carrot"


def test_a_touched_entry_is_not_built_again():
    path = cache.publish("drive", "k", one_file())
    os.utime(path / "file", (1, 1))
    assert cache.publish("drive", "k", never) == path


def test_a_flipped_bit_with_the_old_time_is_found_by_verify():
    path = cache.publish("drive", "k", one_file())
    times = (path / "file").stat()
    (path / "file").write_text("parrot")
    os.utime(path / "file", ns=(times.st_atime_ns, times.st_mtime_ns))
    assert cache.verify(path) == [f"{path / 'file'} was changed or damaged"]


def test_a_foreign_entry_under_our_key_is_replaced(root: Path):
    cache.publish("drive", "a", one_file("a"))
    os.rename(root / "drive" / "a", root / "drive" / "b")
    assert (cache.publish("drive", "b", one_file("b")) / "file").read_text() == "b"


def test_a_sparse_file_keeps_its_holes_and_costs_what_it_holds():
    def build(directory: Path) -> None:
        with open(directory / "ram", "wb") as file:
            file.truncate(4 * 1024**3)
            file.seek(3 * 1024**3 + 5)
            file.write(b"x")

    started = time.process_time()
    path = cache.publish("snapshot", "k", build)
    assert cache.verify(path) == []
    assert time.process_time() - started < 1.0, "4 GiB of holes were read"
    (entry,) = cache.list_entries()
    assert entry.size_bytes < 1024**2
    assert entry.kind == "snapshot"


def test_prune_removes_the_least_recently_used_first():
    for age, key in enumerate(("young", "middle", "old")):
        os.utime(cache.publish("drive", key, one_file("x" * 100_000)), (1000 - age, 1000 - age))
    each = cache.list_entries()[0].size_bytes
    assert [entry.key for entry in cache.prune(2 * each)] == ["old"]
    assert [entry.key for entry in cache.prune()] == ["middle", "young"]
    assert cache.list_entries() == []


def test_prune_leaves_what_is_in_use_and_takes_it_afterwards():
    path = cache.publish("drive", "k", one_file())
    with cache.use(path):
        assert cache.list_entries()[0].in_use
        assert cache.prune() == []
        assert (path / "file").exists()
    assert [entry.key for entry in cache.prune()] == ["k"]
    assert not path.exists()


def test_a_forked_child_keeps_an_entry_in_use():
    lease = cache.use(cache.publish("drive", "k", one_file()))
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(write)
        os.read(read, 1)
        os._exit(0)
    os.close(read)
    lease.release()
    assert cache.prune() == []
    os.close(write)
    os.waitpid(child, 0)
    assert len(cache.prune()) == 1


def test_using_an_entry_that_is_gone_is_a_clear_error_and_obtain_builds_it():
    path = cache.publish("drive", "k", one_file())
    cache.prune()
    with pytest.raises(CacheError, match="gone"):
        cache.use(path)
    with cache.obtain("drive", "k", one_file()) as held:
        assert (held / "file").exists()
        assert cache.prune() == []


def test_the_cap_is_remembered_and_enforced_after_a_build(root: Path):
    os.utime(cache.publish("drive", "old", one_file("x" * 300_000)), (1000, 1000))
    assert cache_prune.cap_bytes() == cache_prune.DEFAULT_CAP_BYTES
    cache_prune.set_cap(200_000)
    cache.publish("drive", "new", one_file())
    assert [entry.key for entry in cache.list_entries()] == ["new"]
    (root / "cap").write_text("much")
    with pytest.raises(CacheError, match="cache cap SIZE"):
        cache_prune.cap_bytes()


def test_the_cap_spares_what_was_used_just_now():
    cache_prune.set_cap(1)
    cache.publish("drive", "a", one_file())
    cache.publish("drive", "b", one_file())
    assert len(cache.list_entries()) == 2


@pytest.mark.parametrize(
    ("text", "size"), [("0", 0), ("500M", 500 * 1024**2), ("20 GiB", 20 * 1024**3), ("1.5g", 3 * 1024**3 // 2)]
)
def test_sizes_are_read(text: str, size: int):
    assert cache_prune.parse_size(text) == size


@pytest.mark.parametrize("text", ["", "-1", "much", "1e9", "5X"])
def test_what_is_no_size_is_refused(text: str):
    with pytest.raises(ConfigError, match="is no size"):
        cache_prune.parse_size(text)


@pytest.mark.parametrize("key", ["", ".", "..", "a/b", "../up", ".hidden", "x" * 200, "a\nb"])
def test_a_key_that_is_no_plain_name_is_refused(key: str):
    with pytest.raises(ValueError, match="no cache entry"):
        cache.publish("drive", key, one_file())


def test_a_cache_that_is_a_file_is_a_clear_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "file").touch()
    for name in ("file", "file/below"):
        monkeypatch.setenv("KAROTTE_GYM_CACHE", str(tmp_path / name))
        with pytest.raises(CacheError, match="is not a directory"):
            cache.cache_root()


def test_a_cache_that_others_can_write_is_refused(root: Path):
    root.mkdir()
    root.chmod(0o777)
    with pytest.raises(CacheError, match="written by others"):
        cache.cache_root()


# Runs as another user when the tests run as root, whom no permission stops.
UNPRIVILEGED = """
import os
from karotte_gym.errors import CacheError
from karotte_gym.sandbox import cache

if os.geteuid() == 0:
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)
try:
    print(cache.cache_root())
except CacheError as error:
    print(error)
"""


def test_a_cache_that_is_not_writable_is_a_clear_error():
    with tempfile.TemporaryDirectory() as name:  # not tmp_path, whose parents are closed to other users
        os.chmod(name, 0o555)
        for directory, sentence in ((name, "is not writable"), (f"{name}/below", "can't be made")):
            environment = {**os.environ, "KAROTTE_GYM_CACHE": directory}
            done = subprocess.run(
                [sys.executable, "-c", UNPRIVILEGED], env=environment, capture_output=True, text=True, check=True
            )
            assert sentence in done.stdout
            assert "KAROTTE_GYM_CACHE" in done.stdout


def test_a_full_disk_is_a_clear_error_and_leaves_nothing(root: Path):
    if os.geteuid():
        pytest.skip("mounting a small tmpfs needs root")
    root.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m,mode=0700", "tmpfs", str(root)], check=True)
    try:
        with pytest.raises(CacheError, match="no space left"):
            cache.publish("drive", "k", one_file("x" * 2_000_000))
        assert not list((root / "drive").glob(".tmp-*"))
        cache.publish("drive", "k", one_file())
    finally:
        subprocess.run(["umount", str(root)], check=True)


def test_other_errors_of_a_build_are_not_taken_for_a_full_disk():
    def build(_directory: Path) -> None:
        raise OSError(errno.EIO, "broken disk")

    with pytest.raises(OSError, match="broken disk"):
        cache.publish("drive", "k", build)
