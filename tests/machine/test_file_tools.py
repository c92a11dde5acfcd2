"""The file tools in a real machine, through the environment and beneath it: what the student gets and what it can't get."""

from __future__ import annotations

import base64
import hashlib
import textwrap
import zlib
from collections.abc import Callable, Iterator
from typing import Any

import gymnasium as gym
import pytest

import karotte_gym
from karotte_gym.sandbox.contract import Sandbox

pytestmark = [pytest.mark.machine, pytest.mark.timeout(300)]

TASK = '''
from karotte_gym import AlwaysPassJudge, Step, Task


class EveryTool(Task):
    """Offers every built-in tool."""

    id = "every-tool"
    tools = ("bash", "view_lines_in_file", "replace_in_file", "write_file", "view_image_file")
    steps = (Step(instructions="Look around.", submission_paths=("/workdir/data",), judge=AlwaysPassJudge()),)
'''
# A PNG of the student's own making, with what every machine has.
MAKE_PNG = textwrap.dedent("""
    import struct, sys, zlib
    def chunk(kind, body): return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
    width, height, name = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
    rows = zlib.compress((b"\\0" + b"\\x7f" * width) * min(height, 2000))
    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    data = b"\\x89PNG\\r\\n\\x1a\\n" + chunk(b"IHDR", header) + chunk(b"IDAT", rows) + chunk(b"IEND", b"")
    open(name, "wb").write(data)
""")


@pytest.fixture(scope="module")
def env(tmp_path_factory: pytest.TempPathFactory) -> Iterator[gym.Env[Any, Any]]:
    project = tmp_path_factory.mktemp("tools")
    (project / "every_tool").mkdir()
    (project / "every_tool" / "__init__.py").write_text(TASK)
    karotte_gym.register_project(project)
    made = gym.make("karotte/every-tool")
    made.reset(seed=1)
    yield made
    made.close()


Call = Callable[..., tuple[str, dict[str, Any]]]


@pytest.fixture
def call(env: gym.Env[Any, Any]) -> Call:
    """One call; its text and info."""

    def step(name: str, **arguments: Any) -> tuple[str, dict[str, Any]]:
        obs, reward, terminated, truncated, info = env.step({"name": name, "arguments": arguments})
        assert (reward, terminated, truncated) == (0.0, False, False)
        return str(obs["content"]), info

    return step


def test_a_files_own_carriage_returns_are_shown(call: Call) -> None:
    call("bash", command=r"printf 'a\rb\n1\b2\033[31m\r\n' > controls")
    assert call("view_lines_in_file", path="controls", start=1, end=9)[0] == "     1\ta␍b\n     2\t1␈2␛[31m\n"


def test_a_relative_path_beside_a_shell_that_is_just_starting(call: Call) -> None:
    assert "a new shell" in call("bash", command="cd /tmp; exit 3")[0]
    assert "Created" in call("write_file", path="beside", content="x")[0]
    assert call("bash", command="cat /workdir/beside")[0].startswith("x")


def test_a_file_keeps_its_group_bits_and_attributes(env: gym.Env[Any, Any], call: Call) -> None:
    sandbox: Sandbox = env.unwrapped.episode.sandbox  # type: ignore[attr-defined]
    make = (
        "import os; os.chdir('/workdir')\n"
        "for name in ('grouped', 'marked'): open(name, 'w').write('old')\n"
        "os.chown('grouped', 1000, 12345); os.chown('marked', 1000, 1000); os.chmod('marked', 0o2755)\n"
        "os.setxattr('marked', 'user.mark', b'mine')\n"
    )
    assert sandbox.run(["/usr/bin/python3", "-c", make], user="root").exit_code == 0
    for name in ("grouped", "marked"):
        assert "Replaced 1 match" in call("replace_in_file", path=name, old="old", new="new")[0]
        assert "Replaced" in call("write_file", path=name, content="newer")[0]
    look = "python3 -c \"import os; print(os.listxattr('marked'), open('marked').read())\"; stat -c '%g %a' grouped marked"
    assert call("bash", command=look)[0] == "['user.mark'] newer\n12345 644\n1000 2755\n"


def test_a_file_is_written_changed_and_viewed(call: Call) -> None:
    text, info = call("write_file", path="notes/a.txt", content="one\n")
    assert "the directory notes does not exist" in text and info["tool"]["exit_code"] == 1
    call("bash", command="mkdir -p notes; cd notes; umask 077")
    assert call("write_file", path="a.txt", content="one\ntwo é\none\n")[0] == "Created a.txt (15 bytes)\n"
    assert call("replace_in_file", path="a.txt", old="one", new="1")[0] == (
        "Replaced the first of 2 matches in a.txt\n@@ line 1 @@\n-one\n+1\n two é\n one\n"
    )
    assert (
        call("view_lines_in_file", path="/workdir/notes/a.txt", start=1, end=3)[0] == "     1\t1\n     2\ttwo é\n     3\tone\n"
    )
    text, _ = call("bash", command="chmod 750 a.txt; stat -c '%a %U %s' a.txt; ls -A; cd /workdir")
    assert text == "750 student 13\na.txt\n"
    assert call("write_file", path="notes/a.txt", content="")[0] == "Replaced notes/a.txt (0 bytes, before: 13)\n"
    assert call("bash", command="stat -c '%a %U %s' notes/a.txt")[0] == "750 student 0\n"


def test_a_picture_of_the_students_comes_as_it_is(call: Call) -> None:
    call("write_file", path="make.py", content=MAKE_PNG)
    call(
        "bash",
        command="python3 make.py 64 48 a.png; python3 make.py 7000 7000 huge.png; cp a.png wrong.jpg; head -c 90 a.png > cut",
    )
    for name in ("a.png", "wrong.jpg"):
        text, info = call("view_image_file", path=name)
        assert text.startswith(f"{name}: PNG, 64 x 48 pixels, ")
        assert [message["role"] for message in info["messages"]] == ["assistant", "tool", "user"]
        url = info["messages"][2]["content"][1]["image_url"]["url"]
        shown = base64.b64decode(url.removeprefix("data:image/png;base64,"))
        expected, _ = call("bash", command="sha256sum < a.png; wc -c < a.png")
        assert expected.split()[0] in text and int(expected.split()[2]) == len(shown)
        assert zlib.decompress(shown[41:-16]) == (b"\0" + b"\x7f" * 64) * 48
    for name, said in (("huge.png", "too large: 7000 x 7000"), ("cut", "cut off"), ("make.py", "is no PNG")):
        text, info = call("view_image_file", path=name)
        assert said in text and len(info["messages"]) == 2 and info["tool"]["exit_code"] == 1, text


def test_the_largest_picture_crosses_whole_and_a_larger_one_is_refused(sandbox: Sandbox) -> None:
    sandbox.bash("cd /tmp; head -c 10485760 /dev/urandom > most; cp most more; echo >> more; sha256sum < most", timeout_s=60)
    done, data = sandbox.read_file("/tmp/most", max_bytes=10 << 20)
    assert (done.exit_code, done.output, len(data)) == (0, b"", 10 << 20)
    digest = sandbox.bash("sha256sum < /tmp/most", timeout_s=60).output.split()[0].decode()
    assert hashlib.sha256(data).hexdigest() == digest
    done, data = sandbox.read_file("/tmp/more", max_bytes=10 << 20)
    assert (done.exit_code, data) == (1, b"") and b"longer than 10485760 bytes" in done.output


def test_the_tools_are_no_way_to_what_is_roots(sandbox: Sandbox) -> None:
    """As root every one of these would work: the agent that carries them out is."""
    sandbox.put_file("/var/tmp/roots-own", b"63148\n", mode=0o600)
    sandbox.bash("ln -s /var/tmp/roots-own /tmp/link; ln -s /etc /tmp/e", timeout_s=30)
    assert sandbox.get_file("/var/tmp/roots-own", max_bytes=100) == b"63148\n"  # it is there for who may
    for path in ("/var/tmp/roots-own", "/tmp/link", "/etc/shadow", "/tmp/e/shadow", "/proc/1/environ", "/dev/vda", "/root/x"):
        for done in (
            sandbox.read_file(path, max_bytes=1000)[0],
            sandbox.write_file(path, "mine"),
            sandbox.view_lines(path, 1, 5),
            sandbox.replace_in_file(path, "6", "7", all=True),
        ):
            assert done.exit_code == 1 and b"63148" not in done.output, (path, done)
    for path in ("/etc/passwd", "/tmp/e/passwd", "/etc/new", "/usr/bin/python3", "/workdir/shared/new", "/run/new"):
        assert sandbox.write_file(path, "mine").exit_code == 1, path
    assert sandbox.get_file("/var/tmp/roots-own", max_bytes=100) == b"63148\n"


def test_what_waits_or_never_ends_is_refused_at_once(sandbox: Sandbox) -> None:
    sandbox.bash(
        "cd /tmp; mkfifo pipe; ln -s pipe to-pipe; ln -s loop loop; ln -s nowhere dangling; mkdir -p dir", timeout_s=30
    )
    for path in ("pipe", "to-pipe", "loop", "dangling", "dir", "dir/", "/dev/zero", "/dev/full", "/dev/tty", "/proc/kmsg", "."):
        full = path if path.startswith("/") else f"/tmp/{path}"
        assert sandbox.write_file(full, "x").exit_code == 1, path
        done, data = sandbox.read_file(full, max_bytes=1000)
        assert (done.exit_code, data) == (1, b"") and done.duration_s < 10, path


def test_a_full_disk_leaves_the_old_content(sandbox: Sandbox) -> None:
    sandbox.bash("cd /dev/shm; echo old > f; head -c 1G /dev/zero > fill", timeout_s=60)
    try:
        done = sandbox.write_file("/dev/shm/f", "x" * 100_000)
        assert done.exit_code == 1 and b"No space left" in done.output
        assert sandbox.bash("cat /dev/shm/f; ls -A /dev/shm", timeout_s=30).output == b"old\nf\nfill\n"
    finally:
        sandbox.bash("rm /dev/shm/fill", timeout_s=30)


def test_content_is_bounded_where_the_frame_is(sandbox: Sandbox) -> None:
    assert sandbox.write_file("/tmp/whole", "y" * (1 << 20)).output == b"Created /tmp/whole (1048576 bytes)\n"
    done = sandbox.write_file("/tmp/over", "y" * ((1 << 20) + 1))
    assert done.exit_code == 1 and b"too long" in done.output
    assert sandbox.bash("ls /tmp/over", timeout_s=30).exit_code == 2


def test_a_student_that_fills_its_process_table_still_gets_an_answer(sandbox: Sandbox) -> None:
    before = sandbox.get_resource_limits()["process_count"]
    sandbox.limit_resources(process_count=12)
    try:
        crowd = sandbox.bash("for i in $(seq 15); do sleep 300 & done; /bin/true", timeout_s=60)
        assert b"Resource temporarily unavailable" in crowd.output + crowd.note.encode()  # the student itself can't fork
        assert sandbox.write_file("/tmp/busy", "x").output == b"Created /tmp/busy (1 bytes)\n"
        assert sandbox.view_lines("/tmp/busy", 1, 1).output == b"     1\tx\n"
    finally:
        sandbox.limit_resources(process_count=before)
        sandbox.bash("kill $(jobs -p)", timeout_s=60, restart=False)
