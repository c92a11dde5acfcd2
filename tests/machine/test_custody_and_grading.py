"""Killing, custody, reclaiming and grading in real machines, with control groups and without."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from karotte_gym.config import Hardware, Limits, SubmissionLimits
from karotte_gym.sandbox.contract import Sandbox
from karotte_gym.sandbox.submission import send_to
from karotte_gym.scoring import StudentMisbehavior

pytestmark = [pytest.mark.machine, pytest.mark.timeout(600)]
Start = Callable[..., Sandbox]
MIB = 1024 * 1024

GRADE = """
import json, sys
from karotte_grading import run_as_student
submission, root_data, result = sys.argv[1:]
def run(name, **options):
    o = run_as_student(["/usr/bin/python3", "-I", f"{submission}/workdir/out/{name}.py"], **options)
    return [o.exit_code, o.timed_out, o.stdout.decode(), o.stderr.decode()[-300:]]
found = {
    "sum": run("sum", stdin=b"3 4"),
    "spy": run("spy"),
    "hog": run("hog", memory_bytes=64 << 20),
    "hang": run("hang", timeout_s=1.0),
    "bomb": run("bomb", process_count=20, timeout_s=20),
    "traced": run("traced", timeout_s=60),
}
json.dump({"score": 1.0, "metadata": found}, open(result, "w"))
"""
PROGRAMS = {
    "sum": "print(sum(map(int, input().split())))",
    "spy": """
import os
for path in ('/root_data/key', '/grade/grade.py', '/proc/1/environ', '/dev/vda', '/usr/lib/karotte/start.py', '/sys/fs'):
    try: print('SEEN', path, os.listdir(path) if os.path.isdir(path) else open(path).read(9))
    except OSError: pass
print(os.getuid(), [p for p in os.listdir('/proc') if p.isdigit()] == [str(os.getpid())])
""",
    "traced": "import ctypes, os\nctypes.CDLL(None).ptrace(0, 0, 0, 0)\nos.kill(os.getpid(), 11)",  # by its parent
    "hog": "b = []\nwhile True: b.append(b'x' * (8 << 20))",
    "hang": "import time\nwhile True: time.sleep(1)",
    "bomb": "import os, time\nn = 0\ntry:\n  while os.fork(): n += 1\n  time.sleep(30)\nexcept OSError: print(n)",
}


def into(tmp_path: Path) -> str:
    directory = tmp_path / "into"
    directory.mkdir(mode=0o700)
    return str(directory)


@pytest.mark.parametrize("use_cgroups", [True, False], ids=["groups", "no groups"])
def test_submitted_code_is_taken_and_run_apart(start_machine: Start, tmp_path: Path, use_cgroups: bool) -> None:
    student = start_machine(use_cgroups=use_cgroups)
    student.start_session(Limits())
    for name, code in PROGRAMS.items():
        student.put_file(f"/workdir/out/{name}.py", code.encode(), owner="student")
    student.bash("mkdir -p out/empty; truncate -s 9M out/sparse; (trap '' HUP; sleep 600) &", timeout_s=30)
    student.end_session()
    submission = student.collect_submission(["/workdir/out"], into(tmp_path), limits=SubmissionLimits())
    assert {file.path for file in submission.files} >= {"/workdir/out/empty", "/workdir/out/sparse"}
    sparse = next(file for file in submission.files if file.path.endswith("sparse"))
    assert sparse.size == 9 * MIB and os.stat(sparse.data_path).st_blocks == 0

    for name, data in (("root_data/key", b"63148"), ("grade/grade.py", GRADE.encode())):
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).write_bytes(data)
    drive = tuple((name, str(tmp_path / name)) for name in ("grade", "root_data"))
    grader = start_machine("grader", drive=drive, use_cgroups=use_cgroups)
    send_to(grader, submission, "/submission")
    done, result = grader.score(
        "/grade/grade.py",
        submission_dir="/submission",
        root_data_dir="/root_data",
        timeout_s=120,
        memory_bytes=256 * MIB,
        max_result_bytes=10_000,
        max_output_bytes=10_000,
    )
    assert done.exit_code == 0, done.output
    found: dict[str, Any] = json.loads(result)["metadata"]
    assert found["sum"][:3] == [0, False, "7\n"], found
    assert found["spy"][:3] == [0, False, "1001 True\n"], found
    assert found["hog"][0] == (137 if use_cgroups else 1), found
    assert found["hang"][:2] == [None, True], found
    assert found["traced"][:2] == [137, False], found
    assert found["bomb"][0] == 0 and 0 < int(found["bomb"][2]) < 20, found


WHERE = """
import json, os, sys
group = "/sys/fs/cgroup/grading"
found = {"group": open("/proc/self/cgroup").read(), "max": open(group + "/memory.max").read(), "is": os.listdir("/run/karotte")}
json.dump(found, open(sys.argv[3], "w"))
"""


def test_every_script_is_in_a_bounded_group_the_first_one_that_stood_by_and_the_next(
    start_machine: Start, tmp_path: Path
) -> None:
    (tmp_path / "grade").mkdir()
    (tmp_path / "grade" / "grade.py").write_text(WHERE)
    grader = start_machine("grader", drive=(("grade", str(tmp_path / "grade")),))
    for memory_bytes in (64 * MIB, 48 * MIB):
        done, result = grader.score(
            "/grade/grade.py",
            submission_dir="/submission",
            root_data_dir="/root_data",
            timeout_s=60,
            memory_bytes=memory_bytes,
            max_result_bytes=10_000,
            max_output_bytes=10_000,
        )
        assert done.exit_code == 0, done.output
        found = json.loads(result)
        assert (found["group"], found["max"]) == ("0::/grading/script\n", f"{memory_bytes}\n")
        results = [name for name in found["is"] if name.startswith("result-")]
        assert len(results) == 1 and "rehearsal" not in found["is"], found


FILL_BLOCKS = "cat /dev/zero > /submission/all; for n in $(seq 50); do head -c 1024 /dev/zero > /submission/$n; done"
FILL_INODES = "cd /submission; for n in $(seq 5000); do : > $n || break; done"
NEED_THREE = "mkdir -p /tmp/one/two/three; rm -rf /tmp/one"


@pytest.mark.parametrize("left", [0, 1, 2])
@pytest.mark.parametrize("fill", [FILL_BLOCKS, FILL_INODES], ids=["blocks", "inodes"])
def test_a_grader_whose_disk_a_submission_has_filled_still_scores(
    start_machine: Start, tmp_path: Path, fill: str, left: int
) -> None:
    """The student chooses how much it hands in; a grader that failed at it would have the episode dropped."""
    (tmp_path / "grade").mkdir()
    (tmp_path / "grade" / "grade.py").write_text("import sys; open(sys.argv[3], 'w').write('{\"score\": 0.5}')")
    small = Hardware(disk_mib=64, disk_inodes=4096)
    grader = start_machine("grader", drive=(("grade", str(tmp_path / "grade")),), hardware=small)
    free = f"; rm /submission/{{1..{left}}}" if left else ""
    refused = grader.run(["/bin/bash", "-c", f"({fill}{free}) 2> /dev/null; {NEED_THREE}"], user="root", timeout_s=120)
    assert b"No space left" in refused.output, "there is room, so this shows nothing"
    done, result = grader.score(
        "/grade/grade.py",
        submission_dir="/submission",
        root_data_dir="/root_data",
        timeout_s=60,
        memory_bytes=256 * MIB,
        max_result_bytes=10_000,
        max_output_bytes=10_000,
    )
    assert (done.exit_code, result) == (0, b'{"score": 0.5}'), done.output


def test_what_is_left_of_a_session_can_be_reclaimed(start_machine: Start, tmp_path: Path) -> None:
    student = start_machine()
    student.start_session(Limits())
    deep = "import os\nfor _ in range(3000): os.mkdir('d' * 20); os.chdir('d' * 20)"
    student.bash(f'mkdir -p /tmp/mine /dev/shm/mine; ipcmk -Q; python3 -c "{deep}"', timeout_s=60)
    assert student.delete_files(1000, extend_exclude=["/workdir/data"]) == []
    assert student.bash("ls -A /workdir /tmp /dev/shm; ipcs -q | grep -c 0x", timeout_s=30).output.split() == (
        b"/dev/shm: /tmp: /workdir: data shared 0".split()
    )
    assert student.kill_processes(1000) >= 1
    student.end_session()
    submission = student.collect_submission(["/workdir/data/answer.txt"], into(tmp_path), limits=SubmissionLimits())
    assert submission.missing == ("/workdir/data/answer.txt",)


def test_a_link_is_refused_by_name(start_machine: Start, tmp_path: Path) -> None:
    student = start_machine()
    student.start_session(Limits())
    student.bash("ln -s /etc/shadow data/answer.txt", timeout_s=30)
    student.end_session()
    with pytest.raises(StudentMisbehavior, match=r"^/workdir/data/answer.txt is a symbolic link"):
        student.collect_submission(["/workdir/data/answer.txt"], into(tmp_path), limits=SubmissionLimits())
    assert os.listdir(tmp_path / "into") == []
