"""Each file probe finds its defect in a broken tree, names the path, and finds nothing in a clean one."""

from __future__ import annotations

import os
import re
import shutil
import socket
import stat
import struct
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from growth import TOO_MUCH, growth

from karotte_gym.guest.probes import catalogue, credentials, network, run, system_calls
from karotte_gym.guest.probes.tree import Finding, Tree

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="owners, devices and capabilities of files need root")

STUDENT = 1000
STRANGER = 4242
PASSWD = "root:x:0:0:root:/root:/bin/bash\nstudent:x:1000:1000::/workdir:/bin/bash\n"


@pytest.fixture
def tree() -> Iterator[Path]:
    """A small image without defects, in a place that every user may enter."""
    top = Path(tempfile.mkdtemp(prefix="karotte-probes-"))
    top.chmod(0o755)
    for name in (
        "bin",
        "etc",
        "usr/bin",
        "usr/sbin",
        "usr/lib/python3/dist-packages",
        "usr/local/bin",
        "var/log",
        "opt",
    ):
        (top / name).mkdir(parents=True)
    for name, mode in (("root", 0o700), ("tmp", 0o1777), ("var/tmp", 0o1777), ("workdir", 0o755)):
        (top / name).mkdir()
        (top / name).chmod(mode)
    os.chown(top / "workdir", STUDENT, STUDENT)
    write(top, "etc/passwd", PASSWD)
    write(top, "etc/shadow", "root:*:1::::::\nstudent:!:1::::::\n", 0o640)
    write(top, "etc/group", "root:x:0:\nstudent:x:1000:\n")
    write(top, "etc/hosts", "127.0.0.1 localhost\n")
    shutil.copy("/bin/bash", top / "bin/bash")
    yield top
    shutil.rmtree(top)


def write(top: Path, name: str, content: str | bytes = "x\n", mode: int = 0o644) -> Path:
    path = top / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    path.chmod(mode)
    return path


def find(name: str, top: Path) -> list[Finding]:
    probe = {**catalogue.AS_STUDENT, **catalogue.AS_ROOT}[name]
    return list(probe(Tree(root=str(top))))


def append(top: Path, name: str, text: str) -> Path:
    with (top / name).open("a") as file:
        file.write(text)
    return top / name


def owned(top: Path, name: str, uid: int, gid: int = 0) -> None:
    os.chown(write(top, name), uid, gid)


def opened(top: Path, name: str, mode: int) -> None:
    (top / name).mkdir(parents=True, exist_ok=True)
    (top / name).chmod(mode)


def capable(top: Path) -> None:
    write(top, "usr/bin/ping", mode=0o755)
    value = struct.pack("<IIIII", 0x02000001, 1 << 13, 0, 0, 0)
    os.setxattr(top / "usr/bin/ping", "security.capability", value)


def with_access_list(top: Path) -> None:
    path = write(top, "etc/secret", mode=0o600)
    entries = [(1, 6, -1), (2, 4, STUDENT), (4, 0, -1), (0x10, 4, -1), (0x20, 0, -1)]
    value = struct.pack("<I", 2) + b"".join(struct.pack("<HHi", *entry) for entry in entries)
    os.setxattr(path, "system.posix_acl_access", value)


def with_socket(top: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(top / "opt/daemon.sock"))


def attributed(top: Path) -> None:
    os.setxattr(write(top, "opt/file"), "user.origin", b"here")


# probe: (makes the defect, what a finding must name). One for each probe that looks at files.
DEFECTS: dict[str, tuple[Callable[[Path], object], str]] = {
    "setuid-programs": (lambda top: write(top, "usr/bin/shell", mode=0o4755), "/usr/bin/shell"),
    "setgid-programs": (lambda top: write(top, "usr/bin/wall", mode=0o2755), "/usr/bin/wall"),
    "file-capabilities": (capable, "/usr/bin/ping"),
    "access-lists": (with_access_list, "/etc/secret"),
    "unusual-attributes": (attributed, "user.origin"),
    "writable-files": (lambda top: write(top, "etc/profile", mode=0o666), "/etc/profile"),
    "writable-directories": (lambda top: opened(top, "usr/share", 0o1777), "/usr/share"),
    "files-of-the-student": (lambda top: owned(top, "opt/mine", STUDENT), "/opt/mine"),
    "files-of-the-students-group": (lambda top: owned(top, "opt/ours", 0, STUDENT), "/opt/ours"),
    "files-of-nobody": (lambda top: owned(top, "opt/lost", STRANGER), "/opt/lost"),
    "device-nodes": (lambda top: os.mknod(top / "opt/disk", stat.S_IFBLK | 0o600, os.makedev(254, 0)), "/opt/disk"),
    "sockets-and-pipes": (with_socket, "/opt/daemon.sock"),
    "temporary-directories": (lambda top: (top / "tmp").chmod(0o777), "/tmp"),
    "home-of-root": (lambda top: (top / "root").chmod(0o755), "/root"),
    "further-roots": (lambda top: append(top, "etc/passwd", "toor:x:0:0::/:/bin/sh\n"), "toor"),
    "twins-of-the-student": (lambda top: append(top, "etc/passwd", "other:x:1000:6::/:/bin/sh\n"), "other"),
    "groups-of-the-student": (lambda top: append(top, "etc/group", "disk:x:6:student\n"), "disk"),
    "primary-group-of-the-student": (
        lambda top: write(top, "etc/passwd", PASSWD.replace("1000:1000", "1000:0")), "1000:0",
    ),
    "subordinate-ids": (lambda top: write(top, "etc/subuid", "student:100000:65536\n"), "/etc/subuid"),
    "readable-shadow": (lambda top: (top / "etc/shadow").chmod(0o644), "/etc/shadow"),
    "passwordless-accounts": (lambda top: append(top, "etc/shadow", "guest::1::::::\n"), "guest"),
    "passwords": (lambda top: append(top, "etc/shadow", "admin:$6$salt$hash:1::::::\n"), "admin"),
    "delegation-rules": (lambda top: write(top, "etc/sudoers.d/student", mode=0o440), "/etc/sudoers.d/student"),
    "remote-logins": (lambda top: write(top, "root/.ssh/authorized_keys"), "/root/.ssh/authorized_keys"),
    "privilege-programs": (lambda top: write(top, "usr/bin/sudo", mode=0o755), "/usr/bin/sudo"),
    "scheduling-programs": (lambda top: write(top, "usr/sbin/cron", mode=0o755), "/usr/sbin/cron"),
    "scheduled-jobs": (lambda top: write(top, "etc/cron.d/job"), "/etc/cron.d/job"),
    "program-directories": (lambda top: (top / "usr/local/bin").chmod(0o777), "/usr/local/bin"),
    "library-directories": (lambda top: write(top, "etc/ld.so.conf.d/x.conf", "/workdir\n"), "/workdir"),
    "loader-preload": (lambda top: write(top, "etc/ld.so.preload", "/opt/hook.so\n"), "/opt/hook.so"),
    "python-directories": (
        lambda top: opened(top, "usr/lib/python3/dist-packages", 0o777), "/usr/lib/python3/dist-packages",
    ),
    "python-startup-files": (
        lambda top: write(top, "usr/lib/python3/dist-packages/x.pth", "/workdir\n"), "dist-packages/x.pth",
    ),
    "shell-startup-files": (lambda top: write(top, "etc/profile.d/x.sh", mode=0o666), "/etc/profile.d/x.sh"),
    "init-files": (lambda top: owned(top, "etc/systemd/system/x.service", STUDENT), "/etc/systemd/system/x.service"),
    "programs-and-libraries": (lambda top: owned(top, "usr/lib/libx.so", STRANGER), "/usr/lib/libx.so"),
    "bash-symbols": (lambda top: write(top, "bin/bash", b"#!/bin/sh\n", 0o755), "/bin/bash"),
    "grader-places": (lambda top: write(top, "root_data/answer.txt"), "/root_data"),
    "grader-files": (lambda top: write(top, "opt/task/grade.py"), "/opt/task/grade.py"),
    "links-in-the-workspace": (lambda top: (top / "workdir/data").symlink_to("/etc"), "/workdir/data"),
    "urls-with-passwords": (
        lambda top: write(top, "etc/apt/sources.list.d/x.list", "deb https://me:s3cr3t@mirror.invalid/debian x main\n"),
        "/etc/apt/sources.list.d/x.list",
    ),
    "private-keys": (lambda top: write(top, "root/deploy", b"-----BEGIN RSA " + b"PRIVATE KEY-----\n"), "/root/deploy"),
    "tokens": (lambda top: write(top, "opt/settings", "key=AKIA" + "ABCDEFGHIJKLMNOP\n"), "/opt/settings"),
    "credential-files": (lambda top: write(top, "root/.netrc"), "/root/.netrc"),
    "histories": (lambda top: write(top, "root/.bash_history"), "/root/.bash_history"),
    "environment-files": (lambda top: write(top, "etc/environment", "API_KEY=abcdefgh\n"), "/etc/environment"),
    "package-credentials": (lambda top: write(top, "etc/apt/auth.conf", mode=0o600), "/etc/apt/auth.conf"),
    "machine-identity": (lambda top: write(top, "etc/machine-id", "0123456789abcdef\n"), "/etc/machine-id"),
    "host-keys": (lambda top: write(top, "etc/ssh/ssh_host_rsa_key", mode=0o600), "/etc/ssh/ssh_host_rsa_key"),
    "random-seeds": (lambda top: write(top, "var/lib/systemd/random-seed"), "/var/lib/systemd/random-seed"),
    "build-logs": (lambda top: write(top, "var/log/dpkg.log"), "/var/log/dpkg.log"),
    "package-lists": (lambda top: write(top, "var/lib/apt/lists/x_Packages"), "/var/lib/apt/lists/x_Packages"),
    "account-backups": (lambda top: write(top, "etc/shadow-", mode=0o600), "/etc/shadow-"),
    "kernel-files": (lambda top: write(top, "boot/System.map-6"), "/boot/System.map-6"),
    "source-histories": (lambda top: (top / "opt/task/.git").mkdir(parents=True), "/opt/task/.git"),
    "container-marks": (lambda top: write(top, ".dockerenv"), "/.dockerenv"),
    "names-of-other-hosts": (lambda top: append(top, "etc/hosts", "10.1.2.3 builder\n"), "10.1.2.3"),
}  # fmt: skip
MARKED_BY_SIZE = {"whole-tree-was-seen"}


def test_every_file_probe_has_a_defect_here() -> None:
    started_in_machines = {
        "harness-code",
        "bash-starts",
        "python-starts-isolated",
        "python-is-recent",
        "pseudo-terminals",
    }
    expected = set(catalogue.ALL) - set(catalogue.CONFINEMENT) - started_in_machines - MARKED_BY_SIZE
    assert set(DEFECTS) == expected


def test_there_are_more_than_forty_probes_that_the_student_runs() -> None:
    assert len(catalogue.AS_STUDENT) >= 40


def test_every_probe_says_which_attack_it_stands_for() -> None:
    assert [name for name, probe in catalogue.ALL.items() if len(probe.__doc__ or "") < 30] == []


@pytest.mark.parametrize("name", DEFECTS)
def test_a_probe_finds_nothing_in_a_clean_tree_and_names_the_defect_in_a_broken_one(name: str, tree: Path) -> None:
    assert find(name, tree) == []
    make, named = DEFECTS[name]
    make(tree)
    found = find(name, tree)
    assert any(named in one.finding for one in found), found
    assert all(one.fix for one in found)


def test_a_tree_that_is_too_large_is_itself_a_finding(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert find("whole-tree-was-seen", tree) == []
    monkeypatch.setattr("karotte_gym.guest.probes.tree.MAX_ENTRIES", 5)
    assert find("whole-tree-was-seen", tree)


def test_a_whiteout_is_no_device_and_the_workspace_may_be_writable(tree: Path) -> None:
    os.mknod(tree / "opt/gone", stat.S_IFCHR, os.makedev(0, 0))
    owned(tree, "workdir/data/answer.txt", STUDENT, STUDENT)
    for name in ("device-nodes", "writable-files", "files-of-the-student", "writable-directories"):
        assert find(name, tree) == []


@pytest.mark.parametrize("piece", [b"\n", b"token", b" ", b"-ey", b"\nAcquire::", b"token \n", b"export "])
def test_a_search_for_credentials_costs_no_more_than_the_files_length(piece: bytes) -> None:
    patterns = [credentials._ASSIGNED, credentials._PROXY, re.compile(credentials._TOKEN[2])]
    for pattern in patterns:
        assert growth(lambda count: pattern.search(piece * count), 300) < TOO_MUCH  # noqa: B023


@pytest.mark.parametrize("line", [b"TOKEN=abcd", b"x\n  export MY_API_KEY = 'abcd'", b"my.password.old:\n  abcd"])
def test_a_setting_that_looks_like_a_secret_is_seen(line: bytes) -> None:
    assert credentials._ASSIGNED.search(line) and not credentials._ASSIGNED.search(line.replace(b"abcd", b"abc"))


def test_a_fifo_in_the_place_of_a_file_does_not_hold_a_probe_up(tree: Path) -> None:
    os.mkfifo(tree / "etc/machine-id")
    os.mkfifo(tree / "root/.netrc")
    assert find("machine-identity", tree) == []
    assert find("private-keys", tree) == []


def test_names_that_are_no_text_become_harmless_text(tree: Path) -> None:
    write(tree, "usr/bin/\udcff\x1b[2J\n", mode=0o4755)
    found = run.run(Tree(root=str(tree)), {"setuid-programs": catalogue.ALL["setuid-programs"]})
    [[finding, _]] = found["setuid-programs"]
    assert finding.isprintable() and finding.encode("utf-8")


def test_a_probe_that_fails_is_a_finding_and_not_silence() -> None:
    def broken(_tree: Tree) -> Iterator[Finding]:
        raise KeyError("gone")
        yield

    [[finding, _]] = run.run(Tree(), {"broken": broken})["broken"]
    assert "failed" in finding and "gone" in finding


def test_the_same_finding_of_student_and_root_is_told_once_and_many_are_cut() -> None:
    many = {"x": [[f"finding {number}", "fix"] for number in range(run.MAX_FINDINGS + 7)]}
    merged = run.merge(["x", "y"], many, many)
    assert len(merged) == run.MAX_FINDINGS + 2
    assert merged[-2]["finding"].startswith("7 more")
    assert merged[-1] == {"name": "y", "ok": True, "finding": "", "fix": ""}


def as_user(uid: int, code: str) -> str:
    """Run Python code of ours as an ordinary user that nothing confines."""
    prelude = "import os; from karotte_gym.guest.probes import catalogue; from karotte_gym.guest.probes.tree import Tree\n"
    prelude += f"os.setgroups([]); os.setgid({uid}); os.setuid({uid})\n"
    argv = [sys.executable, "-c", prelude + code]
    return subprocess.run(argv, capture_output=True, text=True, timeout=60, check=True).stdout


def test_an_unfiltered_process_is_told_from_a_confined_one() -> None:
    names = ["no-new-privileges", "system-call-filter", "personalities", "secret-memory", "limits-of-a-process"]
    code = f"print(sum(bool(list(catalogue.CONFINEMENT[name](Tree()))) for name in {names!r}))"
    assert int(as_user(STUDENT, code)) >= len(names) - 1  # a host kernel may have no memfd_secret


def test_a_network_that_is_only_a_loopback_passes_and_a_card_with_a_route_does_not() -> None:
    """In a namespace of its own: nothing of this leaves the host."""
    if not shutil.which("ip"):
        pytest.skip("a network card for the test is made by iproute2, which is not installed")
    before, after = alone_and_with_a_card()
    assert before == "[]"
    assert "there is a network interface card0" in after and "datagram" in after and "route" in after


def alone_and_with_a_card() -> tuple[str, str]:
    ask = "from karotte_gym.guest.probes.network import what_gets_out; print(what_gets_out().decode())"
    card = "ip link add card0 type bridge && ip addr add 192.0.2.77/24 dev card0 && ip link set card0 up"
    route = "ip route add default via 192.0.2.1"
    script = f"ip link set lo up && {sys.executable} -c '{ask}' && {card} && {route} && {sys.executable} -c '{ask}'"
    result = subprocess.run(["unshare", "--net", "/bin/sh", "-c", script], capture_output=True, text=True, timeout=120)
    assert result.returncode == 0, result.stderr
    before, after = result.stdout.splitlines()
    return before, after


def test_the_network_claim_becomes_a_contract() -> None:
    class Session:
        def __init__(self, answer: bytes):
            self._answer = answer

        def call_as_student(self, function: object, **_limits: object) -> bytes:
            assert function is network.what_gets_out
            return self._answer

    assert network.claim(Session(b"[]"))["enforcement"] == "prevented"
    weak = network.claim(Session(b'["there is a route by eth0"]'))
    assert weak["enforcement"] == "not_supported" and "eth0" in weak["evidence"]


def test_the_numbers_of_system_calls_agree_with_the_filters() -> None:
    from karotte_gym.guest import seccomp
    from karotte_gym.guest.probes import attempt

    filters = {**seccomp.REFUSED, **{name: (x86_64, aarch64) for name, (x86_64, aarch64, _) in seccomp.NOT_OFFERED.items()}}
    shared = attempt._NUMBERS.keys() & filters.keys()
    assert len(shared) >= 19
    assert {name: attempt._NUMBERS[name] for name in shared} == {name: filters[name] for name in shared}
    assert system_calls.LIVE_PROBES
