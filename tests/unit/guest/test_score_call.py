"""A scoring script runs clean, bounded and alone; submitted code runs without sight of it."""

from __future__ import annotations

import errno
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from as_user import Answer, needs_root
from scoring_script import GRADING

from karotte_gym.guest import scoring
from karotte_gym.guest.calls import Machine, Refused

pytestmark = [needs_root, pytest.mark.timeout(120)]
MIB = 1024 * 1024
BASE = Path("/opt")  # a scoring script must lie where only root can write, so not below a temporary directory

Score = Callable[..., tuple[dict[str, Any], bytes, bytes, bytes]]


@pytest.fixture
def grade(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A directory for a script, its data and a submission, as in a grader machine."""
    directory = BASE / f"karotte-test-{os.getpid()}"
    directory.mkdir(mode=0o755)
    (directory / "root_data").mkdir(mode=0o700)
    (directory / "root_data" / "key").write_text("63148")
    (directory / "submission").mkdir(mode=0o755)
    (directory / "private").mkdir(mode=0o700)
    monkeypatch.setattr(scoring, "PRIVATE", str(directory / "private"))
    monkeypatch.setenv("PYTHONPATH", "/nowhere")
    yield directory
    assert os.listdir(directory / "private") == []
    shutil.rmtree(directory)


@pytest.fixture
def score(grade: Path) -> Score:
    """Runs `code` as a scoring script: (result header, result file, stdout, stderr)."""

    def run(code: str, **changes: Any) -> tuple[dict[str, Any], bytes, bytes, bytes]:
        (grade / "grade.py").write_text(f"import sys\nsubmission, root_data, result = sys.argv[1:]\n{code}")
        params: dict[str, Any] = {
            "script": str(grade / "grade.py"),
            "submission_dir": str(grade / "submission"),
            "root_data_dir": str(grade / "root_data"),
            "timeout_s": 20.0,
            "memory_bytes": 512 * MIB,
            "max_result_bytes": 4096,
            "max_output_bytes": 4096,
        }
        header, body = scoring.METHODS["score"](Machine(use_cgroups=False), Answer("score", **params | changes).call)
        results, prints = header["result_bytes"], header["stdout_bytes"]
        return header, body[:results], body[results : results + prints], body[results + prints :]

    return run


WRITE = "open(result, 'w').write('{\"score\": 1}')\n"


def test_a_script_writes_its_result(score: Score) -> None:
    code = "print(open(root_data + '/key').read())\nprint('note', file=sys.stderr)\n" + WRITE
    header, result, stdout, stderr = score(code)
    assert (header["exit_code"], header["timed_out"], header["cut_bytes"], header["note"]) == (0, False, 0, "")
    assert (result, stdout, stderr) == (b'{"score": 1}', b"63148\n", b"note\n")


def test_the_script_finds_a_clean_place(score: Score, grade: Path) -> None:
    (grade / "submission" / "json.py").write_text("print('evil')")
    code = (
        "import json, os\n"
        "print(json.dumps({'cwd': os.listdir('.'), 'mode': os.stat('.').st_mode & 0o777, 'env': dict(os.environ),\n"
        "  'flags': [sys.flags.isolated, sys.flags.no_site], 'path': sys.path, 'stdin': sys.stdin.read(),\n"
        "  'fds': len(os.listdir('/proc/self/fd')), 'beside': os.listdir(os.path.dirname(result))}))\n"
    )
    seen = json.loads(score(code)[2])
    assert seen["cwd"] == [] and seen["mode"] == 0o700 and seen["beside"] == []
    assert seen["env"].keys() <= {"PATH", "HOME", "LANG", "LC_CTYPE"}
    assert seen["flags"] == [1, 1] and "" not in seen["path"]
    assert not any("submission" in entry or "nowhere" in entry for entry in seen["path"])
    assert seen["stdin"] == "" and seen["fds"] <= 5


def test_what_nearly_every_script_imports_is_loaded_before_it_and_is_ours(score: Score, grade: Path) -> None:
    (grade / "submission" / "karotte_grading.py").write_text("print('evil')")
    code = "print('karotte_grading' in sys.modules, sys.modules['karotte_grading'].__file__)\n"
    loaded, path = score(code)[2].decode().split()
    assert loaded == "True" and path.endswith("/guest/grading/karotte_grading.py")


def test_a_disk_that_a_submission_has_filled_holds_up_no_score(score: Score, monkeypatch: pytest.MonkeyPatch) -> None:
    """The student chooses the size of what it hands in: were this an error, it could have a losing episode dropped."""

    def make(prefix: str, dir: str) -> str:
        if dir == scoring.DISK:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return on_a_disk_with_room(prefix=prefix, dir=dir)

    on_a_disk_with_room = tempfile.mkdtemp
    monkeypatch.setattr(tempfile, "mkdtemp", make)
    header, result, stdout, _ = score("import os\nprint(os.getcwd())\n" + WRITE)
    assert (header["exit_code"], result) == (0, b'{"score": 1}')
    assert stdout.decode().startswith(scoring.PRIVATE)


def test_a_script_that_hangs_is_ended_with_its_children(score: Score) -> None:
    code = "import subprocess, time\nprint(subprocess.Popen(['/bin/sleep', '98']).pid, flush=True)\ntime.sleep(98)"
    begin = time.monotonic()
    header, result, stdout, _ = score(code, timeout_s=5.0)  # in which it must get to its print
    assert time.monotonic() - begin < 60, "and not until the child ends by itself"
    assert (header["timed_out"], header["exit_code"], result) == (True, None, b"")
    assert not os.path.exists(f"/proc/{int(stdout)}/exe")


def test_children_left_behind_are_ended_and_do_not_hold_up_the_answer(score: Score) -> None:
    code = "import subprocess\nprint(subprocess.Popen(['/bin/sleep', '97']).pid, flush=True)\n" + WRITE
    begin = time.monotonic()
    header, result, stdout, _ = score(code)
    assert time.monotonic() - begin < 60, "and not until the child ends by itself"
    assert header["exit_code"] == 0 and result
    assert not os.path.exists(f"/proc/{int(stdout)}/exe")


def test_floods_of_output_are_cut(score: Score) -> None:
    header, _, stdout, stderr = score("for _ in range(200): print('x' * 100000); print('y' * 10000, file=sys.stderr)")
    assert header["exit_code"] == 0 and header["cut_bytes"] > 20_000_000
    assert len(stdout) < 2200 and len(stderr) < 2200


def test_memory_is_bounded(score: Score) -> None:
    header, _, _, stderr = score("b = bytearray(900 << 20)", memory_bytes=256 * MIB)
    assert header["exit_code"] == 1 and b"MemoryError" in stderr


@pytest.mark.parametrize(
    ("code", "note"),
    [
        ("", "does not exist"),
        ("import os; os.symlink('/etc/passwd', result)", "symbolic link|regular"),
        ("import os; os.mkfifo(result)", "FIFO"),
        ("import os; os.mkdir(result)", "directory"),
        ("open(result, 'w').write('x' * 5000)", "5000 bytes"),
        ("open(result, 'w').truncate(1 << 40)", "bytes"),
    ],
)
def test_a_result_that_is_no_small_file_is_not_read(score: Score, code: str, note: str) -> None:
    header, result, _, _ = score(code)
    assert result == b"" and header["exit_code"] == 0
    assert any(part in header["note"] for part in note.split("|"))


@pytest.mark.parametrize("code", ["raise SystemExit(3)", "import os; os._exit(3)"])
def test_exit_codes_come_back(score: Score, code: str) -> None:
    assert score(code)[0]["exit_code"] == 3


def test_a_signal_is_told_as_the_shell_does(score: Score) -> None:
    assert score("import os; os.kill(os.getpid(), 9)")[0]["exit_code"] == 137


def test_nothing_of_a_run_is_left(score: Score, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scoring, "DISK", str(tmp_path))
    score("open('left', 'w').write('x')\n" + WRITE)
    assert list(tmp_path.iterdir()) == []


def test_a_script_that_others_can_write_is_refused(score: Score, grade: Path) -> None:
    score(WRITE)
    (grade / "grade.py").chmod(0o666)
    with pytest.raises(Refused) as refused:
        score(WRITE)
    assert refused.value.kind == "refused"


@pytest.mark.parametrize(
    ("wrong", "kind"),
    [
        ({"script": "/no/such.py"}, "no-file"),
        ({"script": "grade.py"}, "bad-params"),
        ({"timeout_s": 0}, "bad-params"),
        ({"memory_bytes": True}, "bad-params"),
        ({"max_output_bytes": 1 << 30}, "bad-params"),
        ({"submission_dir": "/a/../b"}, "bad-params"),
    ],
)
def test_bad_parameters_are_refused(score: Score, wrong: dict[str, Any], kind: str) -> None:
    with pytest.raises(Refused) as refused:
        score(WRITE, **wrong)
    assert refused.value.kind == kind


# Submitted code -------------------------------------------------------------------------------------------------------

RUN = """
from karotte_grading import run_as_student
import json
try:
    o = run_as_student({argv}, readable=[submission], {options})
    print(json.dumps([o.exit_code, o.timed_out, o.cut_bytes, o.stdout.decode(), o.stderr.decode(), o.duration_s]))
except RuntimeError as error:
    print(json.dumps(['RuntimeError', str(error)]))
"""


@pytest.fixture
def submitted(score: Score, grade: Path) -> Callable[..., list[Any]]:
    """Runs submitted Python code by a scoring script: what `run_as_student` returned."""

    def run(code: str, options: str = "") -> list[Any]:
        (grade / "submission" / "solve.py").write_text(code)
        argv = ["/usr/bin/python3", "-I", "-S", f"{grade}/submission/solve.py"]
        header, _, stdout, stderr = score(RUN.format(argv=argv, options=options), max_output_bytes=200_000)
        assert header["exit_code"] == 0, stderr
        outcome: list[Any] = json.loads(stdout)
        return outcome

    return run


def test_submitted_code_runs_with_input_and_output(submitted: Callable[..., list[Any]]) -> None:
    outcome = submitted("import sys; a, b = map(int, input().split()); print(a + b); sys.exit(5)", "stdin=b'3 4'")
    assert outcome[:4] == [5, False, 0, "7\n"]


def test_submitted_code_is_nobody_and_alone(submitted: Callable[..., list[Any]], grade: Path) -> None:
    code = f"""
import os, socket
status = open('/proc/self/status').read()
def line(name): return [l.split()[1:] for l in status.splitlines() if l.startswith(name + ':')][0]
print(os.getresuid(), os.getgroups(), line('CapEff'), line('CapBnd'), line('NoNewPrivs'))
print(sorted(p for p in os.listdir('/proc') if p.isdigit()) == [str(os.getpid())])
for path in ({str(grade)!r} + '/root_data/key', {str(grade)!r} + '/grade.py', '/root', '/root_data', '/grade', '/sys',
             '/run', '/var', '/home', '/proc/1/root/etc', '/proc/1/environ', '/dev/sda', '/dev/mem'):
    try:
        print('SEEN', path, os.listdir(path) if os.path.isdir(path) else open(path).read())
    except OSError:
        pass
for path in ('/', '/usr', '/etc', {str(grade)!r} + '/submission', '/dev'):
    try:
        open(path + '/written', 'w'); print('WRITTEN', path)
    except OSError:
        pass
open('/tmp/mine', 'w').write('x'); print(os.listdir('/tmp'))
print([name for _, name in socket.if_nameindex()])
try:
    socket.create_connection(('192.0.2.1', 80), timeout=1); print('NET')
except OSError:
    print('closed')
for target in (1, os.getppid()):
    try:
        os.kill(target, 0); print('KILL', target)
    except OSError:
        pass
"""
    code_out = submitted(code)
    assert code_out[0] == 0, code_out[4]
    lines = code_out[3].splitlines()
    assert lines == [
        "(1001, 1001, 1001) [] ['0000000000000000'] ['0000000000000000'] ['1']",
        "True",
        "['mine']",
        "['lo']",
        "closed",
    ]


def test_submitted_code_can_not_report_its_own_end(submitted: Callable[..., list[Any]]) -> None:
    """A socket of the confiner's that it inherited would do: what is said there first counts."""
    code = """
import os, socket, sys
print(sorted(map(int, os.listdir('/proc/self/fd')))[:-1])
for fd in range(3, 256):
    try:
        said = socket.socket(fileno=os.dup(fd))
        for report in (b'junk', b'exit nonsense', b'exit 0'):
            said.send(report)
        print('FORGED', fd)
    except OSError:
        pass
sys.stdout.flush()
os._exit(7)
"""
    assert submitted(code)[::3][:2] == [7, "[0, 1, 2]\n"]


@pytest.mark.parametrize(
    ("reports", "code"), [([b"exit 7"], 7), ([b"exit x", b"junk", b"exit 137", b"exit 0"], 137), ([b"junk"], None)]
)
def test_a_report_that_is_none_is_passed_over(reports: list[bytes], code: int | None) -> None:
    check = (
        f"import sys; sys.path.append({str(GRADING)!r})\n"
        "import socket\nfrom karotte_confiner import Confined\n"
        "confined = Confined.__new__(Confined)\n"
        "confined._report, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)\n"
        f"for report in {reports!r}: theirs.send(report)\n"
        "theirs.close()\nprint(confined.exit_code())\n"
    )
    done = subprocess.run([sys.executable, "-I", "-c", check], capture_output=True, timeout=20, check=False)
    assert done.stdout == (b"" if code is None else b"%d\n" % code)
    assert (b"RuntimeError: the process that confines submitted code was ended: b'junk'" in done.stderr) == (code is None)


def test_submitted_code_can_not_outstay_its_time(submitted: Callable[..., list[Any]]) -> None:
    code = """
import os, signal, time
for s in (1, 2, 3, 15): signal.signal(s, signal.SIG_IGN)
if os.fork() == 0:
    os.setsid()
    if os.fork(): os._exit(0)
print('begun', flush=True)
while True: time.sleep(1)
"""
    outcome = submitted(code, "timeout_s=1.0")
    assert outcome[:3] == [None, True, 0]
    assert 1.0 <= outcome[5] < 15, "and not for ever: the scoring script itself has 20 s"


def test_daemons_of_submitted_code_end_with_it(submitted: Callable[..., list[Any]], grade: Path) -> None:
    outcome = submitted("import os, time\nif os.fork() == 0: os.setsid(); time.sleep(96)\nprint('done', flush=True)")
    assert outcome[0] == 0 and outcome[3] == "done\n"
    assert outcome[5] < 15, "and not until the daemon ends by itself"
    mine = f"{grade}/submission/solve.py".encode()  # other workers run others of that name
    assert not any(mine in _command(pid) for pid in os.listdir("/proc") if pid.isdigit())


def _command(pid: str) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def test_a_flood_of_submitted_output_is_cut(submitted: Callable[..., list[Any]]) -> None:
    outcome = submitted("for _ in range(100): print('x' * 100000)", "max_output_bytes=1000")
    assert outcome[0] == 0 and len(outcome[3]) == 1000 and outcome[2] == 100 * 100001 - 1000


def test_memory_and_processes_of_submitted_code_are_bounded(submitted: Callable[..., list[Any]]) -> None:
    assert "MemoryError" in submitted("bytearray(900 << 20)", "memory_bytes=128 << 20")[4]
    bomb = "import os, time\nn = 0\ntry:\n  while os.fork(): n += 1\n  time.sleep(9)\nexcept OSError: print(n)"
    outcome = submitted(bomb, "process_count=10, timeout_s=15")
    assert int(outcome[3]) < 10


def test_code_that_dies_of_a_signal_or_is_no_program_says_so(submitted: Callable[..., list[Any]]) -> None:
    assert submitted("import os; os.kill(os.getpid(), 11)")[0] == 139


def test_a_program_that_is_not_there_is_exit_code_127(score: Score) -> None:
    stdout = score(RUN.format(argv=["/no/such/program"], options=""))[2]
    assert json.loads(stdout)[0] == 127
