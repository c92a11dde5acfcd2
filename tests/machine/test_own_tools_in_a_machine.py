"""An author's own tools in real machines: on the host with the student's rights, in the machine, and in the tool log."""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gymnasium as gym
import pytest

from karotte_gym import register_project

pytestmark = pytest.mark.machine

TASK = """
from karotte_gym import AlwaysPassJudge, Limits, Step, Task

class Own(Task):
    id = "own-tools-in-machines"
    tools = ("bash", "view_lines_in_file", "replace_in_file", "write_file", "read", "count", "inside", "slow", "statistics")
    limits = Limits(command_timeout_s=20.0, max_output_bytes=4096)
    steps = (Step("Do.", ("/workdir/x",), AlwaysPassJudge()), Step("More.", ("/workdir/x",), AlwaysPassJudge()))

    def pre_hook(self, sandbox, rng):
        sandbox.put_file("/workdir/secret.txt", b"roots own", mode=0o600, owner="root")
        self.store["start"] = 40

    def configure_tools(self):
        return {"count": {"start": self.store.get("start", 0)}}
"""
READ = '''
from karotte_gym import StudentSandbox

def read(path: str, sandbox: StudentSandbox, careless: bool = False):
    """Read a file."""
    if careless:
        return sandbox.as_root.get_file(path, max_bytes=100).decode()
    done, data = sandbox.read_file(path, max_bytes=100)
    return data.decode() if done.exit_code == 0 else done
'''
COUNT = '''
from pydantic import BaseModel
from karotte_gym import StudentSandbox, ToolContext

class Count:
    """Count and say what is known."""

    class Config(BaseModel):
        start: int

    def __init__(self, config: Config):
        self.count = config.start

    def __call__(self, context: ToolContext, sandbox: StudentSandbox) -> dict[str, object]:
        self.count += 1
        context.store["count"] = self.count
        who = sandbox.run(["/usr/bin/id", "-un"]).stdout.decode().strip()
        where = sandbox.bash("pwd").output.decode().strip()
        return {"count": self.count, "step": context.step, "seed": context.seed, "drawn": int(context.rng.integers(1000)),
                "who": who, "where": where}
'''
INSIDE = '''
from __future__ import annotations
import getpass, json, os, sys
from karotte_gym import tool

@tool(run_in="machine", timeout_s=10)
def inside(what: str, size: int = 1) -> dict | str:
    """Do something inside."""
    print("this is no result")
    if what == "raise":
        raise LookupError("nothing " * size)
    if what == "die":
        os.kill(os.getpid(), 9)
    if what == "sleep":
        __import__("time").sleep(60)
    if what == "size":
        return "x" * size
    return {"uid": os.getuid(), "cwd": os.getcwd(), "json": json.__file__, "what": what, "isolated": sys.flags.isolated}
'''
STATISTICS = '''
from karotte_gym import tool
from statistics import mean

@tool(run_in="machine")
def statistics(numbers: list[float], names: dict[str, int] | None = None) -> list:
    """Of numbers."""
    return [mean(numbers), names]
'''
SLOW = '''
from karotte_gym import StudentSandbox, tool

@tool(timeout_s=1)
def slow(sandbox: StudentSandbox):
    """Sleep in the machine, and then on."""
    sandbox.run(["/bin/sleep", "3"])
    return sandbox.run(["/usr/bin/touch", "/workdir/too-late"])
'''


@pytest.fixture(scope="module")
def env(tmp_path_factory: pytest.TempPathFactory) -> Iterator[gym.Env[Any, Any]]:
    project = tmp_path_factory.mktemp("project")
    place = project / "own_tools_in_machines"
    (place / "tools").mkdir(parents=True)
    (place / "__init__.py").write_text(TASK)
    for name, source in {"read": READ, "count": COUNT, "inside": INSIDE, "slow": SLOW, "statistics": STATISTICS}.items():
        (place / "tools" / f"{name}.py").write_text(source)
    register_project(project)
    made = gym.make("karotte/own-tools-in-machines", run_dir=str(project / "runs"))
    yield made
    made.close()


@pytest.fixture
def call(env: gym.Env[Any, Any]) -> Any:
    env.reset(seed=5)

    def call(name: str, **arguments: Any) -> tuple[str, dict[str, Any]]:
        obs, _, _, _, info = env.step({"name": name, "arguments": arguments})
        return obs["content"], info["tool"]

    return call


def test_a_tool_acts_as_the_student_and_a_careless_one_as_root_would_give_everything_away(call: Any) -> None:
    assert call("read", path="/workdir/secret.txt", careless=True)[0] == "roots own", "the attack works on a careless tool"
    text, facts = call("read", path="/workdir/secret.txt")
    assert "roots own" not in text and facts["exit_code"] == 1
    call("bash", command="echo mine > notes.txt")
    assert call("read", path="/workdir/notes.txt")[0] == "mine\n"


def test_a_class_keeps_its_count_for_one_episode_and_shares_the_store(env: gym.Env[Any, Any], call: Any) -> None:
    call("bash", command="cd /tmp")
    first, second = (json.loads(call("count")[0]) for _ in range(2))
    assert (first["count"], second["count"], first["who"], first["where"]) == (41, 42, "student", "/tmp")
    assert (first["step"], first["seed"]) == (1, 5)
    assert env.unwrapped.episode.task.store["count"] == 42  # type: ignore[attr-defined]
    env.step({"name": "submit", "arguments": {}})
    assert json.loads(call("count")[0])["step"] == 2
    env.reset(seed=5)
    again = json.loads(call("count")[0])
    assert (again["count"], again["drawn"]) == (41, first["drawn"])


def test_a_tool_in_the_machine_is_the_student_and_imports_nothing_of_the_students(call: Any) -> None:
    call("write_file", path="/workdir/json.py", content="print('hijacked')\n")
    assert "hijacked" in call("bash", command="cd /workdir; python3 -c 'import json'")[0], "where Python is not isolated"
    call("bash", command="export PYTHONPATH=/workdir; echo 'export PYTHONPATH=/workdir' >> ~/.profile")
    text, facts = call("inside", what="facts")
    said = json.loads(text)
    assert (said["uid"], said["cwd"], said["isolated"]) == (1000, "/workdir", 1)
    assert said["json"].startswith("/usr/lib/")
    assert facts["exit_code"] == 0 and not facts["timed_out"]


def test_a_tool_in_the_machine_may_be_named_as_a_module_of_pythons_own(call: Any) -> None:
    assert call("statistics", numbers=[1, 2.5], names={"a": 1})[0] == '[1.75, {"a": 1}]'


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({"what": "raise"}, "LookupError: nothing"),
        ({"what": "raise", "size": 5000}, "LookupError: nothing"),
        ({"what": "die"}, "gave no result (exit code 137"),
        ({"what": "size", "size": 3_000_000}, "gave no result"),
    ],
)
def test_a_tool_that_fails_in_the_machine_is_an_answer(call: Any, arguments: dict[str, Any], told: str) -> None:
    with pytest.warns(RuntimeWarning, match=r"inside.py: the tool inside failed in the machine"):
        text, facts = call("inside", **arguments)
    assert told in text and len(text) < 700 and facts["exit_code"] == 1
    assert call("bash", command="echo ok")[0] == "ok\n"


def test_a_long_result_of_the_machine_is_cut_to_the_tasks_limit(call: Any) -> None:
    text, facts = call("inside", what="size", size=100_000)
    assert len(text) <= 4096 and facts["truncated"]


def test_a_tool_in_the_machine_is_ended_at_its_time(call: Any) -> None:
    text, facts = call("inside", what="sleep")
    assert "ended after 10" in text and facts["timed_out"]
    assert call("bash", command="pgrep -fc 'sleep(60)' || true")[0].strip().startswith("0")


def test_a_student_that_kills_the_tool_gets_an_answer_and_no_more(call: Any) -> None:
    call("bash", command="(while true; do pkill -9 python3; done) >/dev/null 2>&1 &")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        text, _ = call("inside", what="facts")
    assert "gave no result" in text or '"uid": 1000' in text
    assert call("bash", command="kill %1; echo ok")[0].startswith("ok")


def test_a_tool_given_up_does_nothing_more_in_the_machine(call: Any) -> None:
    with pytest.warns(RuntimeWarning, match="took over 1 s"):
        text, facts = call("slow")
    assert "given up after 1 s" in text and facts["timed_out"]
    assert "too-late" not in call("bash", command="sleep 1; ls /workdir")[0]


def test_every_call_of_every_kind_is_in_the_tool_log(env: gym.Env[Any, Any], call: Any) -> None:
    """Its wall time, exit code, bytes in and out, and whether it was cut or timed out; also of what was refused."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        call("bash", command="seq 100000; (exit 3)")
        call("bash", command="echo begun; sleep 9", timeout=2)
        call("write_file", path="f", content="a\nb\n")
        call("view_lines_in_file", path="f", start=1, end=2)
        call("replace_in_file", path="f", old="b", new="c")
        call("view_lines_in_file", path="nosuch", start=1, end=2)
        call("count")
        call("inside", what="raise")
        call("inside", what="size", size=50_000)
        call("slow")
        env.step("no call at all")
        call("bash", command=5)
        call("submit")
        call("submit", message="done")
    events = env.unwrapped.episode.transcript.events  # type: ignore[attr-defined]
    seen = [(event.tool, event.exit_code, event.cut, event.timed_out) for event in events]
    assert seen == [
        ("bash", 3, True, False),
        ("bash", None, False, True),
        ("write_file", 0, False, False),
        ("view_lines_in_file", 0, False, False),
        ("replace_in_file", 0, False, False),
        ("view_lines_in_file", 1, False, False),
        ("count", 0, False, False),
        ("inside", 1, False, False),
        ("inside", 0, True, False),
        ("slow", None, False, True),
        ("", None, False, False),
        ("", None, False, False),
        ("submit", None, False, False),
        ("submit", None, False, False),
    ]
    assert all(event.bytes_in > 0 and event.bytes_out > 0 for event in events)
    assert [event.duration_s > 0 for event in events] == [event.tool != "" for event in events]
    assert events[0].bytes_out > 500_000 > len(events[0].result)
    assert events[8].bytes_out == 50_000
    assert [event.step for event in events[-2:]] == [1, 2]
    directory = Path(env.unwrapped.episode.directory)  # type: ignore[attr-defined]
    assert (directory / "record.json").is_file()
