"""speedup in real machines: the solution is paid, no cheat is, and what the timing rests on holds."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium as gym
import pytest

from karotte_gym.agents.scripted import play
from karotte_gym.redteam import Attack, own_attacks, run_attacks, solution_of
from karotte_gym.registration import load_task
from karotte_gym.sandbox.contract import Sandbox

pytestmark = [pytest.mark.machine, pytest.mark.timeout(900)]
TASK = load_task("speedup")
SUBMIT = {"name": "submit", "arguments": {"message": "done"}}
MIB = 1024 * 1024
Start = Callable[..., Sandbox]


def test_the_solution_earns_the_full_score_and_its_figures_are_told() -> None:
    with gym.make("karotte/speedup") as env:
        played = play(env, solution_of(TASK), seed=1)
    assert (played.reward, played.info["misbehavior"]) == (1.0, None), played.info["scoring"]
    figures = played.info["record"]["steps"][0]["metadata"]
    assert figures["ratio"] >= 8 and 3 <= len(figures["ratios"]) <= 8
    assert figures["ratios"] == sorted(figures["ratios"])


def test_doing_nothing_scores_0() -> None:
    with gym.make("karotte/speedup") as env:
        played = play(env, [SUBMIT])
    assert played.reward == 0.0
    assert played.info["scoring"]["reason"] == "nothing was handed in"


@pytest.mark.parametrize("attack", own_attacks(TASK), ids=lambda attack: attack.name)
def test_no_cheat_is_paid(attack: Attack) -> None:
    (outcome,) = run_attacks("speedup", [attack], parallel=1, honest_after=False)
    assert outcome.failures == []


# What the timing rests on ---------------------------------------------------------------------------------------------

GRADE = """
import json, subprocess, sys, time
from karotte_grading import run_as_student, start_as_student
submission, root_data, result = sys.argv[1:]
PYTHON = ["/usr/bin/python3", "-I", "-S", "-B", "-c"]
found = {}

# A note in the kernel's key ring of the user: without a filter it is there for the user's next process.
def key(code): return f'''
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
print(libc.syscall({code}), ctypes.get_errno())
'''
WRITE, READ = key("248, b'user', b'note', b'x', 1, -4"), key("249, b'user', b'note', None, 0")
bare = dict(user=1001, group=1001, extra_groups=[], capture_output=True, text=True)
holder = subprocess.Popen(["/bin/sleep", "60"], user=1001, group=1001, extra_groups=[])
found["bare write"] = subprocess.run([*PYTHON, WRITE], **bare).stdout.split()
found["bare read"] = subprocess.run([*PYTHON, READ], **bare).stdout.split()
holder.kill()
found["write"] = run_as_student([*PYTHON, WRITE]).stdout.decode().split()
found["read"] = run_as_student([*PYTHON, READ]).stdout.decode().split()

# A child that counts in the background, asked twice with a pause between.
COUNT = '''
import mmap, os, sys
shared = mmap.mmap(-1, 8)
if os.fork() == 0:
    os.setsid()
    number = 0
    while True:
        number += 1
        shared[:] = number.to_bytes(8, "little")
print("ready", flush=True)
for line in sys.stdin:
    print(int.from_bytes(shared[:], "little"), flush=True)
'''
def counted(frozen):
    with start_as_student([*PYTHON, COUNT]) as program:
        assert program.ask(end=b"ready\\n").complete
        first = int(program.ask(b"\\n").data)
        while first == 0:
            first = int(program.ask(b"\\n").data)
        if frozen: program.freeze()
        time.sleep(1.0)
        if frozen: program.thaw()
        return [first, int(program.ask(b"\\n").data)]
found["running"], found["frozen"] = counted(False), counted(True)

# Files of one process are not there for the next.
LEAVE = "import os; print(os.listdir('/tmp')); open('/tmp/left', 'w').close(); print(os.listdir('/tmp'))"
found["files"] = [run_as_student([*PYTHON, LEAVE]).stdout.decode().split() for _ in range(2)]

# No answer: the end of the program, too much, too late, and an answer that never ends.
def reply(code, **options):
    with start_as_student([*PYTHON, code]) as program:
        answer = program.ask(b"x", **options)
        return [answer.complete, len(answer.data), answer.duration_s]
found["ended"] = reply("print('half', end='')")
found["flood"] = reply("while True: print('x' * 1000, end='')", max_bytes=5000)
found["late"] = reply("import time; time.sleep(30)", timeout_s=1.0)
found["errors"] = reply("import sys; sys.stderr.write('e' * 3000000); print('done')", max_bytes=100)
json.dump({"score": 1.0, "metadata": found}, open(result, "w"))
"""


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    from karotte_gym.sandbox import machines
    from karotte_gym.sandbox.contract import MachineSpec

    directory: Path = tmp_path_factory.mktemp("grade")
    (directory / "grade.py").write_text(GRADE)
    sandbox = machines.start(MachineSpec(role="grader", drive=(("grade", str(directory)),)))
    try:
        done, result = sandbox.score(
            "/grade/grade.py",
            submission_dir="/submission",
            root_data_dir="/root_data",
            timeout_s=240,
            memory_bytes=256 * MIB,
            max_result_bytes=10_000,
            max_output_bytes=10_000,
        )
    finally:
        sandbox.close()
    assert done.exit_code == 0, done.output
    figures: dict[str, Any] = json.loads(result)["metadata"]
    return figures


def test_a_note_in_the_kernels_keys_would_reach_the_next_run_but_for_the_filter(found: dict[str, Any]) -> None:
    assert int(found["bare write"][0]) > 0
    assert found["bare read"][0] == found["bare write"][0]
    assert found["write"] == found["read"] == ["-1", "1"]  # EPERM


def test_a_child_works_on_between_two_questions_unless_it_is_frozen(found: dict[str, Any]) -> None:
    running, frozen = (last - first for first, last in (found["running"], found["frozen"]))
    assert running > 0
    assert frozen < running / 4  # what it counts after the thaw, until the answer


def test_a_file_is_not_there_for_the_next_process(found: dict[str, Any]) -> None:
    assert found["files"] == [["[]", "['left']"], ["[]", "['left']"]]


def test_what_is_no_whole_answer_in_time_is_incomplete(found: dict[str, Any]) -> None:
    assert found["ended"][:2] == [False, 4]
    assert found["flood"][:2] == [False, 5000]
    assert found["late"][:2] == [False, 0]
    assert found["errors"][:2] == [True, 5]
