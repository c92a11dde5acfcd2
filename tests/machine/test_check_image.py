"""The base image passes its own checks, and an image that was broken on purpose has each of its defects named."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

import pytest

from karotte_gym.config import Limits
from karotte_gym.errors import CallRefused, ImageError
from karotte_gym.guest import probes
from karotte_gym.sandbox import cache, check_image, image, machines
from karotte_gym.sandbox.contract import MachineSpec, Sandbox
from karotte_gym.sandbox.machine_sandbox import MachineSandbox

pytestmark = [pytest.mark.machine, pytest.mark.timeout(600)]

# The extended attributes are written by Python: setcap and setfacl are not in the image.
CAPABILITY = "struct.pack('<IIIII', 0x02000001, 1 << 13, 0, 0, 0)"
ACL_ENTRIES = "[(1, 6, -1), (2, 4, 1000), (4, 0, -1), (16, 4, -1), (32, 0, -1)]"
ACL = f"struct.pack('<I', 2) + b''.join(struct.pack('<HHi', *entry) for entry in {ACL_ENTRIES})"
SET = "/usr/bin/python3 -I -c \"import os, struct; os.setxattr('{}', '{}', {})\""

# What root does to the image before the session: probe, path that a finding must name, commands.
DEFECTS = (
    ("grader-files", "/opt/task/grade.py", "mkdir -p /opt/task; echo 63148 > /opt/task/grade.py"),
    ("grader-places", "/root_data", "mkdir /root_data; echo 63148 > /root_data/answer.txt"),
    ("setuid-programs", "/usr/bin/rootsh", "cp /bin/bash /usr/bin/rootsh; chmod 4755 /usr/bin/rootsh"),
    ("setgid-programs", "/usr/bin/wall2", "cp /bin/true /usr/bin/wall2; chmod 2755 /usr/bin/wall2"),
    ("credential-files", "/root/.netrc", "echo machine x login y > /root/.netrc"),
    ("urls-with-passwords", "/etc/pip.conf", "echo index-url = https://me:s3cr3t@mirror.invalid/ > /etc/pip.conf"),
    ("private-keys", "/etc/deploy.pem", "printf -- '-----BEGIN %s KEY-----' PRIVATE > /etc/deploy.pem"),
    ("program-directories", "/usr/local/bin", "chmod 0777 /usr/local/bin"),
    ("writable-directories", "/usr/local/bin", "chmod 0777 /usr/local/bin"),
    ("further-roots", "toor", "echo toor:x:0:0::/root:/bin/bash >> /etc/passwd"),
    ("passwordless-accounts", "guest", "echo guest::19000:::::: >> /etc/shadow"),
    ("subordinate-ids", "/etc/subuid", "echo student:100000:65536 >> /etc/subuid"),
    ("groups-of-the-student", "disk", "echo disk2:x:6:student >> /etc/group"),
    ("scheduling-programs", "/usr/sbin/cron", "cp /bin/true /usr/sbin/cron"),
    ("privilege-programs", "/usr/bin/sudo", "cp /bin/true /usr/bin/sudo"),
    ("scheduled-jobs", "/etc/cron.d/job", "mkdir -p /etc/cron.d; echo x > /etc/cron.d/job"),
    ("delegation-rules", "/etc/sudoers", "echo student ALL=NOPASSWD: ALL > /etc/sudoers"),
    ("writable-files", "/etc/profile", "chmod 0666 /etc/profile"),
    ("shell-startup-files", "/etc/profile", "chmod 0666 /etc/profile"),
    ("files-of-the-student", "/opt/mine", "touch /opt/mine; chown 1000 /opt/mine"),
    ("files-of-nobody", "/opt/lost", "touch /opt/lost; chown 4242 /opt/lost"),
    ("device-nodes", "/opt/disk", "mknod /opt/disk b 254 0"),
    ("sockets-and-pipes", "/opt/fifo", "mkfifo /opt/fifo"),
    ("file-capabilities", "/usr/bin/wall2", SET.format("/usr/bin/wall2", "security.capability", CAPABILITY)),
    ("access-lists", "/opt/mine", SET.format("/opt/mine", "system.posix_acl_access", ACL)),
    ("loader-preload", "/opt/hook.so", "echo /opt/hook.so > /etc/ld.so.preload"),
    ("machine-identity", "/etc/machine-id", "echo 0123456789abcdef > /etc/machine-id"),
    ("host-keys", "/etc/ssh/ssh_host_rsa_key", "mkdir -p /etc/ssh; touch /etc/ssh/ssh_host_rsa_key"),
    ("histories", "/root/.bash_history", "echo export TOKEN=x > /root/.bash_history"),
    ("environment-files", "/etc/environment", "echo API_KEY=abcdefgh > /etc/environment"),
    ("home-of-root", "/root", "chmod 0755 /root"),
    ("readable-shadow", "/etc/shadow", "chmod 0644 /etc/shadow"),
    ("name-servers", "192.0.2.53", "rm -f /etc/resolv.conf; echo nameserver 192.0.2.53 > /etc/resolv.conf"),
)  # fmt: skip


@pytest.fixture(scope="module")
def findings_in_a_broken_image() -> Iterator[list[check_image.Finding]]:
    spec = MachineSpec(role="student", test_hooks=True)
    with contextlib.closing(machines.start(spec)) as sandbox:
        for command in dict.fromkeys(command for _, _, command in DEFECTS):
            result = sandbox.run(["/bin/sh", "-c", command], user="root")
            assert result.exit_code == 0, (command, result.output)
        sandbox.start_session(Limits())
        yield check_image.probe_session(sandbox)


@pytest.mark.parametrize(("probe", "path"), [(probe, path) for probe, path, _ in DEFECTS])
def test_a_defect_is_named(findings_in_a_broken_image: list[check_image.Finding], probe: str, path: str) -> None:
    told = [one for one in findings_in_a_broken_image if one.name == probe and not one.ok]
    assert any(path in one.finding for one in told), told
    assert all(one.fix for one in told)


def test_the_base_image_has_no_defect_and_is_not_checked_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    built = image.base_image()
    found = check_image.check_image(built)
    assert [one for one in found if not one.ok] == []
    assert {one.name for one in found} == set(probes.ALL)
    monkeypatch.setattr(machines, "start", lambda *_: pytest.fail("an unchanged image was checked again"))
    assert check_image.check_image(built) == found
    check_image.refuse_broken_image(built)


def test_a_build_of_a_broken_image_fails_and_says_what_to_fix(monkeypatch: pytest.MonkeyPatch) -> None:
    bad = check_image.Finding("setuid-programs", False, "/usr/bin/rootsh is setuid", "chmod u-s /usr/bin/rootsh")
    monkeypatch.setattr(check_image, "check_image", lambda *_: [bad])
    with pytest.raises(ImageError, match="rootsh is setuid; chmod u-s"):
        check_image.refuse_broken_image(image.base_image())


def test_a_verdict_that_was_tampered_with_is_not_believed() -> None:
    built = image.base_image()
    check_image.check_image(built)
    entry = cache.find("verdict", f"image-{built.id}")
    assert entry is not None
    (entry / "findings.json").write_text("[]")
    assert cache.find("verdict", f"image-{built.id}") is None
    assert {one.name for one in check_image.check_image(built)} == set(probes.ALL)


def test_probes_need_a_session_and_known_names(start_machine: Callable[..., Sandbox]) -> None:
    sandbox = start_machine()
    assert isinstance(sandbox, MachineSandbox)
    with pytest.raises(CallRefused, match="session"):
        sandbox.probe(["capabilities"])
    sandbox.start_session(Limits())
    with pytest.raises(CallRefused, match="names of probes"):
        sandbox.probe(["capabilities", "no-such-probe"])
    assert [one.name for one in check_image.probe_session(sandbox, ["capabilities"])] == ["capabilities"]
