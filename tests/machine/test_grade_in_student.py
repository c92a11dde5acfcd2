"""Grading in the student's own machine: who is left, what a service can see and do, and what comes after."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import gymnasium as gym
import pytest
from karotte_gym.wrappers import CustodyGrading, MisbehaviorToZero

from karotte_gym import Evidence, Judge, Scoring, Service, Step, Task
from karotte_gym.config import Limits, SubmissionLimits
from karotte_gym.env import KarotteEnv
from karotte_gym.errors import CallRefused
from karotte_gym.sandbox.contract import MachineSpec, Sandbox, Submission
from karotte_gym.sandbox.live_grading import live_machine
from karotte_gym.sandbox.machine_sandbox import MachineSandbox

pytestmark = [pytest.mark.machine, pytest.mark.timeout(900)]
Start = Callable[..., Sandbox]
APP = "/workdir/app"
MEMORY_MIB = 512
SECRET = "the-answer-that-only-root-may-read"

SPY = """
import http.server, json, os, signal, socket
PLACES = ["/root_data/key", "/root_data", "/grade", "/grading_data", "/submission", "/run/karotte", "/usr/lib/karotte",
          "/proc/1/environ", "/proc/1/root", "/proc/kcore", "/sys/fs/cgroup", "/dev/vda", "/dev/vdb", "/dev/vdc"]
def look():
    seen = []
    for path in PLACES:
        try:
            seen.append([path, os.listdir(path) if os.path.isdir(path) else open(path, "rb").read(40).decode("latin-1")])
        except OSError:
            pass
    return [one for one in seen if one[1]]
def killed():
    hit = []
    for pid in range(2, 2000):
        if pid != os.getpid():
            try:
                os.kill(pid, signal.SIGKILL); hit.append(pid)
            except OSError:
                pass
    return hit
def abstract():
    return sum("@" in line for line in open("/proc/net/unix"))
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        status = dict(line.split(":", 1) for line in open("/proc/self/status").read().splitlines() if ":" in line)
        try:
            open("/workdir/app/server.py", "a"); writes = True
        except OSError:
            writes = False
        found = {"uid": os.getuid(), "seen": look(), "killed": killed(), "caps": status["CapEff"].strip(),
                 "seccomp": status["Seccomp"].strip(), "workdir": sorted(os.listdir("/workdir")), "tmp": os.listdir("/tmp"),
                 "pids": [p for p in os.listdir("/proc") if p.isdigit()], "me": os.getpid(), "writes": writes,
                 "env": dict(os.environ), "abstract": abstract()}
        body = json.dumps(found).encode()
        self.send_response(200); self.send_header("Content-Length", str(len(body))); self.end_headers()
        self.wfile.write(body)
    def log_message(self, *arguments): print("x" * 65536)
http.server.HTTPServer(("127.0.0.1", 8080), Handler).serve_forever()
"""
GRADE = """
import json, os, sys, urllib.request
found = {"secret": open(sys.argv[2] + "/key").read(), "tmp": os.listdir("/tmp"), "env": dict(os.environ), "path": sys.path}
found["modules"] = sorted(name for name in sys.modules if "customize" in name)
for port in (8080, 8081):
    try:
        found[str(port)] = urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=20).read(100000).decode()
    except Exception as error:
        found[str(port)] = f"fails: {type(error).__name__}"
json.dump({"score": 1.0, "metadata": found}, open(sys.argv[3], "w"))
"""
SQUATTER = """
import http.server
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200); self.end_headers(); self.wfile.write(b"squatted")
http.server.HTTPServer(("127.0.0.1", PORT), Handler).serve_forever()
"""
LEFT_BEHIND = f"""
echo evil > /tmp/evil; mkdir -p .local/lib/python3.11/site-packages
echo "print('LOADED')" > .local/lib/python3.11/site-packages/usercustomize.py
cp .local/lib/python3.11/site-packages/usercustomize.py {APP}/sitecustomize.py
echo 'export LD_PRELOAD=/tmp/evil.so' > .bashrc
for port in 8080 8081; do sed "s/PORT/$port/" squat.py > s$port.py; (setsid python3 s$port.py > /dev/null 2>&1 &); done
cat > again.sh <<'EOF'
trap '' TERM HUP INT
while true; do python3 /workdir/s8081.py; (setsid bash /workdir/again.sh > /dev/null 2>&1 &); sleep 0.1; done
EOF
(setsid bash again.sh > /dev/null 2>&1 &)
for i in $(seq 100); do
    python3 -c 'from urllib.request import urlopen as u; print(*(u(f"http://localhost:{{p}}").read() for p in (8080, 8081)))' &&
        break
    sleep 0.3
done 2> /dev/null
"""


def grader_spec(tmp_path: Path) -> MachineSpec:
    for name, text in (("root_data/key", SECRET), ("grade/grade.py", GRADE)):
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).write_text(text)
    return MachineSpec(role="grader", drive=tuple((name, str(tmp_path / name)) for name in ("root_data", "grade")))


def taken(student: Sandbox, tmp_path: Path, files: dict[str, str]) -> Any:
    for path, text in files.items():
        student.put_file(path, text.encode(), owner="student")
    into = tmp_path / "into"
    into.mkdir(mode=0o700)
    student.end_session()
    return student.collect_submission([APP], str(into), limits=SubmissionLimits())


def score(machine: Sandbox, timeout_s: float = 120.0) -> dict[str, Any]:
    done, result = machine.score(
        "/grade/grade.py",
        submission_dir="/submission",
        root_data_dir="/root_data",
        timeout_s=timeout_s,
        memory_bytes=128 << 20,
        max_result_bytes=200_000,
        max_output_bytes=10_000,
    )
    assert done.exit_code == 0, done.output
    return json.loads(result)["metadata"]  # type: ignore[no-any-return]


@pytest.mark.parametrize("use_cgroups", [True, False], ids=["groups", "no groups"])
def test_only_the_service_is_left_and_it_sees_only_its_files(start_machine: Start, tmp_path: Path, use_cgroups: bool) -> None:
    student = start_machine(use_cgroups=use_cgroups)
    student.start_session(Limits())
    student.put_file("/workdir/squat.py", SQUATTER.encode(), owner="student")
    student.put_file(f"{APP}/server.py", SPY.encode(), owner="student")
    before = student.bash(LEFT_BEHIND, timeout_s=120)
    assert b"LOADED" in before.output and b"b'squatted' b'squatted'" in before.output, "the attacks work in the session"
    submission = taken(student, tmp_path, {})
    web = Service("web", ("/usr/bin/python3", f"{APP}/server.py"), files=(APP,), port=8080, ready_timeout_s=120)
    with live_machine(student, grader_spec(tmp_path), MEMORY_MIB, (web,), submission) as (machine, started):
        assert started["web"].ready and started["web"].running
        found = score(machine)
    assert found["secret"] == SECRET
    assert [name for name in found["tmp"] if not name.startswith("grading-")] == []
    assert found["modules"] == [] and not {"LD_PRELOAD", "PYTHONPATH"} & found["env"].keys()
    assert not any(path.startswith(("/workdir", "/tmp/evil")) for path in found["path"])
    assert found["8081"].startswith("fails"), "the respawner is dead"
    service = json.loads(found["8080"])
    assert service["uid"] == 1100 and service["caps"] == "0" * 16 and service["seccomp"] == "2"
    assert service["seen"] == [] and service["killed"] == [] and not service["writes"]
    assert service["pids"] == [str(service["me"])]
    assert (service["workdir"], service["tmp"]) == (["app", "shared"], [])
    assert service["env"].keys() <= {"HOME", "LANG", "PATH", "LC_CTYPE"}
    student.start_session(Limits())
    after = student.bash(
        "cat /tmp/evil; ls /root_data /grade /grading_data; grep -c 1F90 /proc/net/tcp; cat /root_data/key", timeout_s=60
    )
    assert after.output.startswith(b"evil") and SECRET.encode() not in after.output
    assert b"Permission denied" in after.output and b"\n0\n" in after.output


def test_grading_data_never_meets_a_student(start_machine: Start) -> None:
    student = start_machine()
    student.start_session(Limits())
    with pytest.raises(CallRefused, match="end it first"):
        student.begin_live_grading(1 << 20)
    student.end_session()
    student.begin_live_grading(1 << 20)
    student.put_file("/root_data/key", SECRET.encode())
    with pytest.raises(CallRefused, match="no student may enter"):
        student.start_session(Limits())
    student.end_live_grading()
    student.start_session(Limits())
    with pytest.raises(CallRefused):
        student.get_file("/root_data/key", max_bytes=100)


HANGS = "import socket, time\ns = socket.create_server(('127.0.0.1', 8080))\nkept = []\nwhile True: kept.append(s.accept())"
FLOODS = """
import os, socket, sys, threading
def flood(c):
    try:
        while True: c.sendall(b"HTTP/1.1 200 OK\\r\\nX: " + b"a" * 60000 + b"\\r\\n"); print("x" * 65536)
    except OSError: pass
s = socket.create_server(("127.0.0.1", 8080))
while True: threading.Thread(target=flood, args=(s.accept()[0],)).start()
"""
FORKS = """
import os, signal
for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP): signal.signal(number, signal.SIG_IGN)
while True:
    try:
        if os.fork() == 0: os.setsid()
    except OSError: pass
"""
EATS = "kept = []\nwhile True: kept.append(b'x' * (8 << 20))"


def test_services_that_misbehave_are_bounded_and_gone_afterwards(start_machine: Start, tmp_path: Path) -> None:
    student = start_machine()
    student.start_session(Limits())
    programs = {"hangs": HANGS, "forks": FORKS, "eats": EATS, "floods": FLOODS.replace("8080", "8081")}
    submission = taken(student, tmp_path, {f"{APP}/{name}.py": code for name, code in programs.items()})
    services = [
        Service(name, ("/usr/bin/python3", f"{APP}/{name}.py"), files=(f"{APP}/{name}.py",), port=port, ready_timeout_s=20)
        for name, port in (("hangs", 8080), ("floods", 8081), ("eats", 8082), ("forks", 8083))
    ]
    services.append(Service("absent", ("/usr/bin/nothing",), files=(APP,), port=8084))
    with live_machine(student, grader_spec(tmp_path), MEMORY_MIB, services, submission) as (machine, started):
        assert started["hangs"].ready and not started["forks"].ready
        assert (started["eats"].running, started["eats"].exit_code) == (False, 137)
        assert (started["absent"].running, started["absent"].exit_code) == (False, 127)
        count = machine.run(["/bin/cat", "/sys/fs/cgroup/service-forks/pids.current"], user="root")
        assert 20 < int(count.output) <= 33, "it forks, and no further than it may"
        found = score(machine)
        assert found["8080"].startswith("fails") and found["8081"].startswith("fails")
    left = student.run(
        ["/bin/sh", "-c", "ls -d /sys/fs/cgroup/service-*; cat /proc/[0-9]*/status 2>/dev/null | grep -c 'Uid:.110'"],
        user="root",
    )
    assert left.stdout == b"0\n", "no group and no process"


COUNTER = """
import http.server, os
class Handler(http.server.BaseHTTPRequestHandler):
    count = 0
    def do_GET(self):
        Handler.count += 1
        body = f"{os.getpid()} {os.getuid()} {Handler.count}".encode()
        self.send_response(200); self.send_header("Content-Length", str(len(body))); self.end_headers(); self.wfile.write(body)
http.server.ThreadingHTTPServer(("127.0.0.1", 8080), Handler).serve_forever()
"""
FETCH = "python3 -c 'import urllib.request as u; print(u.urlopen(\"http://127.0.0.1:8080/\").read().decode())'"


def test_a_kept_service_serves_the_student_and_survives_custody(start_machine: Start, tmp_path: Path) -> None:
    (tmp_path / "shared").mkdir()
    (tmp_path / "shared" / "counter.py").write_text(COUNTER)
    student = start_machine(drive=(("shared_data", str(tmp_path / "shared")),))
    kept = Service("counter", ("/usr/bin/python3", "/workdir/shared/counter.py"), keep=True, port=8080, ready_timeout_s=120)
    assert student.start_service(kept, Submission()).ready
    student.start_session(Limits())
    student.bash(f"{FETCH}; pkill -9 python3; kill -9 -1", timeout_s=60)
    said = student.bash(
        f"{FETCH}; ls /proc | grep -c '^[0-9]'; for p in $(seq 2 3000); do kill -9 $p; done 2>/dev/null", timeout_s=60
    )
    number = int(said.output.split()[2])
    assert number >= 2 and said.output.split()[1] == b"1100"
    submission = taken(student, tmp_path, {})
    with live_machine(student, grader_spec(tmp_path), MEMORY_MIB, (kept,), submission) as (machine, started):
        assert started == {}
        assert int(score(machine)["8080"].split()[2]) == number + 1, "the same process, never restarted"
    student.start_session(Limits())
    assert int(student.bash(FETCH, timeout_s=60).output.split()[2]) == number + 2


class Crashing(Judge):
    """Its machine dies under it; it words that as any failure of its own, or of the grader's."""

    how: ClassVar[str] = ""

    def machine(self, needs: Any) -> MachineSpec:  # noqa: ARG002
        return MachineSpec(role="grader")

    def judge(self, evidence: Evidence) -> Scoring:
        with evidence.grader_machine() as machine:
            assert isinstance(machine, MachineSandbox)
            machine.crash("sysrq")
            machine.run(["/bin/true"], user="root")
        return Scoring(1.0)


class Live(Task):
    id = "live"
    grade_in = "student"
    steps = (Step("Do.", (APP,), Crashing()),)


def test_a_machine_that_dies_while_it_is_graded_is_the_students_doing() -> None:
    env: gym.Env[Any, Any] = MisbehaviorToZero(CustodyGrading(KarotteEnv(f"{__name__}:Live", test_hooks=True)))
    with env:
        env.reset()
        _, reward, terminated, _, info = env.step({"name": "submit", "arguments": {}})
    assert (reward, terminated, info["score"]) == (0.0, True, 0.0)
    assert info["record"]["misbehavior_kind"] == "machine_ended" and info["record"]["error"] is None


def test_a_linked_service_file_is_refused_by_name(start_machine: Start, tmp_path: Path) -> None:
    student = start_machine()
    student.start_session(Limits())
    student.bash(f"mkdir {APP}; ln -s /etc/shadow {APP}/server.py", timeout_s=60)
    with pytest.raises(Exception, match=f"^{APP}/server.py is a symbolic link"):
        taken(student, tmp_path, {})
