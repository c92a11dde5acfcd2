"""Programs that build an image: their failure is a sentence, and they never outlive us."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from karotte_gym.errors import ConfigError, ImageError
from karotte_gym.sandbox import image_base, image_command, image_container, image_rootfs
from karotte_gym.sandbox.image_command import Command, require_free_space

SLEEP, LONGER = f"4242.{os.getpid()}", f"4343.{os.getpid()}"  # nobody else's on this host


@pytest.fixture
def command(tmp_path: Path) -> Command:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    return Command(scratch, tmp_path / "log", lambda stage, fraction: told.append((stage, fraction)))


told: list[tuple[str, float]] = []


def run(command: Command, script: str) -> None:
    command.run("cooking", ["/bin/sh", "-c", script], expected_lines=4, hint="add salt")


def test_output_is_progress_and_goes_to_the_log(command: Command):
    told.clear()
    run(command, "echo one; echo two >&2; printf three")
    assert told[0] == ("cooking", 0.0)
    assert told[-1] == ("cooking", 1.0)
    assert [fraction for _, fraction in told] == sorted(fraction for _, fraction in told)
    assert command.log.read_text().splitlines()[1:] == ["one", "two", "three"]


def test_a_failure_says_what_failed_what_to_do_and_what_was_said(command: Command):
    with pytest.raises(ImageError, match=r"cooking: sh failed with exit code 3; add salt\. It said: E: too hot"):
        run(command, "echo E: too hot; echo bye; exit 3")


def test_a_full_disk_is_named_as_the_cause(command: Command, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(image_command, "OUT_OF_SPACE_BYTES", 1 << 60)
    with pytest.raises(ImageError, match="was full: free some space"):
        run(command, "exit 1")


def test_too_little_space_is_refused_before_anything_is_done(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    require_free_space(tmp_path) if _has_space(tmp_path) else None
    monkeypatch.setattr(image_command, "MIN_FREE_BYTES", 1 << 60)
    with pytest.raises(ImageError, match="KAROTTE_GYM_CACHE to a larger disk"):
        require_free_space(tmp_path)


def _has_space(path: Path) -> bool:
    facts = os.statvfs(path)
    return facts.f_bavail * facts.f_frsize > image_command.MIN_FREE_BYTES


def test_our_environment_is_not_passed_on(command: Command, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    run(command, "env")
    assert "sk-secret" not in command.log.read_text()


def test_an_interrupted_program_is_killed(command: Command):
    def interrupt(_stage: str, fraction: float) -> None:
        if fraction:
            raise KeyboardInterrupt

    command.progress = interrupt
    with pytest.raises(KeyboardInterrupt):
        run(command, f"echo $$; sleep {SLEEP} & wait")
    assert not _sleepers(SLEEP)


KILLED = """
import sys
from pathlib import Path
from karotte_gym.sandbox.image_command import Command

scratch = Path(sys.argv[1])
Command(scratch, scratch / "log", lambda stage, fraction: print(fraction, flush=True)).run(
    "x", ["/bin/sh", "-c", f"echo up; setsid sleep {sys.argv[2]} & sleep {sys.argv[2]}"], expected_lines=9, hint=""
)
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="a PID namespace, which also catches runaways, needs root")
def test_nothing_goes_on_when_we_are_killed(tmp_path: Path):
    process = subprocess.Popen([sys.executable, "-c", KILLED, str(tmp_path), LONGER], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    process.stdout.readline()
    process.stdout.readline()
    deadline = time.monotonic() + 30
    while len(_sleepers(LONGER)) < 2 and time.monotonic() < deadline:
        time.sleep(0.01)
    assert len(_sleepers(LONGER)) >= 2, "the attack: programs that would go on"
    process.send_signal(signal.SIGKILL)
    process.wait()
    deadline = time.monotonic() + 30
    while _sleepers(LONGER) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not _sleepers(LONGER)


def _sleepers(seconds: str) -> list[int]:
    found = []
    for process in psutil.process_iter(["pid", "cmdline", "status"]):
        if process.info["cmdline"] == ["sleep", seconds] and process.info["status"] != psutil.STATUS_ZOMBIE:
            found.append(process.info["pid"])
    return found


@pytest.mark.parametrize("base", ["", "-o", "a b", "a;b", "$(x)", "x" * 300, "../x", "a\nb"])
def test_a_base_that_is_no_name_is_refused(base: str):
    with pytest.raises(ConfigError, match="no name of a container image"):
        image_rootfs.rootfs_key(base)


def test_the_key_depends_on_base_suite_and_mirror(monkeypatch: pytest.MonkeyPatch):
    for name in ("KAROTTE_GYM_SUITE", "KAROTTE_GYM_MIRROR"):
        monkeypatch.delenv(name, raising=False)
    keys = {image_rootfs.rootfs_key(None), image_rootfs.rootfs_key("debian:12-slim")}
    monkeypatch.setenv("KAROTTE_GYM_SUITE", "trixie")
    keys.add(image_rootfs.rootfs_key(None))
    monkeypatch.setenv("KAROTTE_GYM_MIRROR", "http://mirror.invalid/debian")
    keys.add(image_rootfs.rootfs_key(None))
    assert len(keys) == 4


def test_the_key_depends_on_the_containerfile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    before = image_rootfs.rootfs_key(None)
    changed = tmp_path / "Containerfile"
    changed.write_text(image_rootfs.CONTAINERFILE.read_text() + "\n# changed\n")
    monkeypatch.setattr(image_rootfs, "CONTAINERFILE", changed)
    assert image_rootfs.rootfs_key(None) != before


@pytest.mark.parametrize(
    ("name", "value"),
    [("KAROTTE_GYM_SUITE", "sid"), ("KAROTTE_GYM_MIRROR", "--setup-hook=x"), ("KAROTTE_GYM_MIRROR", "http://a b")],
)
def test_bad_settings_are_refused_with_their_name(name: str, value: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv(name, value)
    with pytest.raises(ConfigError, match=name):
        image_base.base_key()


def test_an_unknown_builder_is_refused(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("KAROTTE_GYM_BUILDER", "kaniko")
    with pytest.raises(ConfigError, match="buildah, podman, docker"):
        image_container.find_builder()


@pytest.fixture
def no_tools(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(image_command, "_DIRECTORIES", str(tmp_path))
    monkeypatch.setenv("KAROTTE_GYM_CACHE", str(tmp_path / "cache"))


@pytest.mark.usefixtures("no_tools")
def test_missing_tools_are_named_with_their_package_before_anything_is_done(tmp_path: Path):
    from karotte_gym.sandbox.image import build_image

    with pytest.raises(ImageError, match="install the package squashfs-tools"):
        build_image()
    with pytest.raises(ImageError, match="install the package buildah"):
        image_container.find_builder()
    with pytest.raises(ImageError, match="install the package mmdebstrap"):
        image_base.check_base_tools()
    assert not list((tmp_path / "cache").rglob("*.tar"))


def test_no_network_is_said_before_anything_is_done(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(image_base, "find_tool", lambda name: f"/usr/bin/{name}")
    monkeypatch.setattr(image_base.psutil, "net_if_stats", lambda: {"lo": object()})
    monkeypatch.delenv("KAROTTE_GYM_MIRROR", raising=False)
    with pytest.raises(ImageError, match="no network interface is up"):
        image_base.check_base_tools()
